"""Gradients of linear layers, whichever way round they are multiplied."""

from __future__ import annotations

import pytest
import torch

from resel.networks.ops.products import input_gradient, weight_gradient


@pytest.mark.parametrize(("outputs", "inputs"), [(40, 2), (40, 9), (8, 8), (2, 40)])
def test_they_are_the_products(outputs: int, inputs: int) -> None:
    grad, x = torch.randn(11, outputs).double(), torch.randn(11, inputs).double()
    weight = torch.randn(outputs, inputs).double()
    torch.testing.assert_close(weight_gradient(grad, x), grad.t() @ x)
    torch.testing.assert_close(input_gradient(grad, weight), grad @ weight)
