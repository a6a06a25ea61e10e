"""The Mamba block as a function of C, which keeps its memory where it is.

Glossary
    W width, D channels, S states per channel, R rank of the step size, K taps
"""

from __future__ import annotations

import torch
from torch import nn

from resel.deploy._c_body import Body
from resel.deploy._c_graph import Operation, Read
from resel.deploy._c_text import number
from resel.networks import FeedForward, MambaEncoder, MambaMixer

_CONVOLUTION = """\
    for (c = 0; c < {D}; c++) u[c] = {conv_bias}[c] + RESEL_WEIGHT({conv}[c]) * both[c];
    for (j = 1; j < {K}; j++)
        for (c = 0; c < {D}; c++)
            u[c] += RESEL_WEIGHT({conv}[j * {D} + c]) * past[({K} - 1 - j) * {D} + c];
    for (c = 0; c < {D}; c++) u[c] = resel_silu(u[c]);
"""
_SHIFT = """\
    memmove(past, past + {D}, ({K} - 2) * {D} * sizeof(float));
    memcpy(past + ({K} - 2) * {D}, both, {D} * sizeof(float));
"""
_BLOCK = """\
/* x (W) becomes x + mixer(norm(x)); past ({past}) and h ({D} x {S}) are the memory. */
static inline void {name}(float *x, float *past, float *h) {{
    float normed[{W}], both[2 * {D}], u[{D}], picked[{R} + 2 * {S}];
    const float *B = picked + {R}, *C = picked + {R} + {S};
    int c, j, s;
    (void)past;
    resel_rms_norm(normed, x, {norm}, {eps}, {W});
    resel_linear(both, {in_proj}, 0, normed, 2 * {D}, {W});
{convolution}\
    resel_linear(picked, {x_proj}, 0, u, {R} + 2 * {S}, {D});
    for (c = 0; c < {D}; c++) {{
        const float *rate = {A} + (long)c * {S};
        float *own = h + (long)c * {S};
        float sum = 0.0f, delta = {delta_bias}[c], drive;
        for (j = 0; j < {R}; j++) delta += RESEL_WEIGHT({delta}[c * {R} + j]) * picked[j];
        delta = resel_softplus(delta);
        drive = delta * u[c];
        for (s = 0; s < {S}; s++) own[s] = resel_decay(delta * rate[s]) * own[s] + drive * B[s];
        for (s = 0; s < {S}; s++) sum += own[s] * C[s];
        u[c] = (sum + {skip}[c] * u[c]) * resel_silu(both[{D} + c]);
    }}
    resel_linear(normed, {out_proj}, 0, u, {W}, {D});
    for (c = 0; c < {W}; c++) x[c] += normed[c];
}}
"""


def write_mamba(body: Body, operation: Operation) -> None:
    """The statements of an encoder's step; only its result is a new vector."""
    encoder = operation.module
    assert isinstance(encoder, MambaEncoder)
    x, *memory = operation.args
    width = operation.sizes[0]
    source, into = body.operand(x), body.result(operation, width)
    body.lines.append(f"memcpy({into}, {source}, {width} * sizeof(float));")
    for layer, (norm, mixer) in enumerate(zip(encoder.norms, encoder.mixers, strict=True)):
        assert isinstance(mixer, MambaMixer) and isinstance(norm, nn.RMSNorm)
        name = f"resel_mamba_{len(body.functions)}"
        body.functions.append(_block(body, name, norm, mixer))
        past, h = (_place(body, part) for part in memory[2 * layer : 2 * layer + 2])
        body.lines.append(f"{name}({into}, {past}, {h});")
    if isinstance(encoder.last, FeedForward):
        _feed_forward(body, into, encoder.last, width)
    else:
        norm, last = encoder.last
        assert isinstance(norm, nn.RMSNorm) and isinstance(last, nn.Linear)
        normed = body.vector(width)
        given = f"{body.constant(norm.weight)}, {number(norm.eps or 0.0)}"
        body.lines.append(f"resel_rms_norm({normed}, {into}, {given}, {width});")
        body.linear(into, normed, last.weight, None)


def _place(body: Body, part: Read) -> str:
    return body.operand(part) if part.size else "0"


def _block(body: Body, name: str, norm: nn.RMSNorm, mixer: MambaMixer) -> str:
    sizes = {"D": mixer.channels, "S": mixer.state_size, "R": mixer.rank, "K": mixer.taps}
    convolution = f"    memcpy(u, both, {mixer.channels} * sizeof(float));\n"
    if mixer.taps:
        by_tap = mixer.conv_weight.detach().t().contiguous()  # (K, D), so that channels lie in rows
        names = {
            "conv": body.matrix(mixer.conv_weight, by_tap),
            "conv_bias": body.constant(mixer.conv_bias),
        }
        convolution = (_CONVOLUTION + (_SHIFT if mixer.taps > 1 else "")).format(**sizes, **names)
    body.stack += 3 * mixer.channels + len(norm.weight) + mixer.rank + 2 * mixer.state_size
    return _BLOCK.format(
        name=name,
        W=len(norm.weight),
        past=f"{max(0, mixer.taps - 1)} x {mixer.channels}",
        norm=body.constant(norm.weight),
        eps=number(norm.eps or 0.0),
        convolution=convolution,
        in_proj=body.matrix(mixer.in_proj.weight),
        x_proj=body.matrix(mixer.x_proj.weight),
        delta=body.matrix(mixer.dt_proj.weight),
        delta_bias=body.constant(mixer.dt_proj.bias),
        A=body.constant(-torch.exp(mixer.A_log.detach())),
        skip=body.constant(mixer.D),
        out_proj=body.matrix(mixer.out_proj.weight),
        **sizes,
    )


def _feed_forward(body: Body, into: str, part: FeedForward, width: int) -> None:
    """into becomes norm(into + down(gelu(up(into))))."""
    hidden, moved = body.vector(width), body.vector(width)
    body.linear(hidden, into, part.up.weight, part.up.bias)
    body.loop(width, f"{hidden}[i] = resel_gelu({hidden}[i]);")
    body.linear(moved, hidden, part.down.weight, part.down.bias)
    body.loop(width, f"{moved}[i] += {into}[i];")
    given = f"{body.constant(part.norm.weight)}, {body.constant(part.norm.bias)}"
    eps = number(part.norm.eps)
    body.lines.append(f"resel_layer_norm({into}, {moved}, {given}, {eps}, {width});")
