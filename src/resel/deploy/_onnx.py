"""A step of a policy as an ONNX model, and a session that runs one."""

from __future__ import annotations

import importlib
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from resel.deploy._document import Batch
from resel.deploy._step import PolicyStep
from resel.errors import DamagedFileError, MissingDependencyError
from resel.networks import by_running_statistics

OPSET = 18
_TRACED_ROWS = 2
"""With any number of rows; one would be taken for the only number."""
_NEEDED = ("onnx", "onnxscript", "onnxruntime")


def check_extra(*packages: str) -> None:
    """Refuse to begin without what an export needs."""
    for package in packages or _NEEDED:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise MissingDependencyError(
                f"An exported policy needs the package {package}, which is not installed "
                f"({error}): pip install 'resel[export]'."
            ) from error


def onnx_model(step: PolicyStep, batch: Batch, document: Mapping[str, Any]) -> bytes:
    """The model, with the document in its metadata."""
    import onnx

    rows = _TRACED_ROWS if batch == "dynamic" else batch
    shapes = step.layout.inputs(rows)
    device = next(step.parameters()).device
    example = tuple(torch.zeros(shape, device=device) for shape in shapes.values())
    dynamic = None
    if batch == "dynamic":
        any_number = torch.export.Dim("batch", min=1)
        dynamic = {"inputs": tuple({len(shape) - 2: any_number} for shape in shapes.values())}
    with _quietly(), _weights_kept(step), torch.no_grad(), by_running_statistics(step):
        program = torch.onnx.export(
            step,
            example,
            input_names=list(shapes),
            output_names=step.layout.outputs,
            opset_version=OPSET,
            dynamic_shapes=dynamic,
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    # Where each node was written down is of no use elsewhere.
    for node in model.graph.node:
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output):
        value.ClearField("metadata_props")
    model.graph.ClearField("metadata_props")
    onnx.helper.set_model_props(model, _metadata(document))
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def _metadata(document: Mapping[str, Any]) -> dict[str, str]:
    """The document as one text, and lists of names for runtimes that look for them."""
    return {
        "resel": json.dumps(document),
        "observation_names": ",".join(document["observation"]["names"] or ()),
        "action_names": ",".join(document["action"]["names"]),
    }


class Session:
    """A model in ONNX Runtime, on one thread."""

    def __init__(self, path: Path) -> None:
        check_extra("onnxruntime")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                path.read_bytes(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its own kinds have no common one
            raise DamagedFileError(
                f"{path} cannot be run by ONNX Runtime {onnxruntime.__version__}: {error}. Export "
                "the policy again."
            ) from error
        self._outputs = [output.name for output in self._session.get_outputs()]

    @property
    def metadata(self) -> dict[str, str]:
        """What is written in the model."""
        return dict(self._session.get_modelmeta().custom_metadata_map)

    def __call__(self, feed: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """One step: outputs by name."""
        given = {name: np.ascontiguousarray(value) for name, value in feed.items()}
        return dict(zip(self._outputs, self._session.run(None, given), strict=True))


@contextmanager
def _weights_kept(step: nn.Module) -> Iterator[None]:
    """Tracing leaves other lists of weights in torch's recurrent layers."""
    layers = [module for module in step.modules() if isinstance(module, nn.RNNBase)]
    before = [list(layer._flat_weights) for layer in layers]
    try:
        yield
    finally:
        for layer, weights in zip(layers, before, strict=True):
            layer._flat_weights = weights


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what torch's exporter says of itself."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
