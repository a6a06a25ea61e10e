"""Pieces of C: numbers, arrays, and the small functions that a policy's step is made of.

A function is written only where it is used; its own needs are found by their names in its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_PER_LINE = 8

FUNCTIONS = {
    "resel_not_finite": """\
/* On the bits, so that it holds where the compiler takes it that there are no NaNs. */
static inline int resel_not_finite(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & 0x7f800000u) == 0x7f800000u;
}
""",
    "resel_half": """\
/* A number of 16 bits (IEEE 754 binary16, finite). */
static inline float resel_half(uint16_t half) {
    uint32_t bits = ((half & 0x7fffu) << 13) + (112u << 23);
    float small = (float)((half & 0x7c00u) == 0), sign = (float)(1 - 2 * (half >> 15)), x;
    memcpy(&x, &bits, sizeof x);
    return sign * (x + small * (x - 6.10351562e-5f)); /* no branch: many are done at once */
}
""",
    "resel_linear": """\
/* y = W x + b; W (outputs, inputs) row by row, b may be 0. */
static inline void resel_linear(float *y, const resel_weight *w, const float *b, const float *x,
                                int outputs, int inputs) {
    int i, j, k;
    for (j = 0; j < outputs; j++) {
        const resel_weight *row = w + (long)j * inputs;
        float lanes[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        float sum = b ? b[j] : 0.0f;
        for (i = 0; i + 8 <= inputs; i += 8)
            for (k = 0; k < 8; k++) lanes[k] += RESEL_WEIGHT(row[i + k]) * x[i + k];
        for (; i < inputs; i++) sum += RESEL_WEIGHT(row[i]) * x[i];
        for (k = 0; k < 4; k++) lanes[k] += lanes[k + 4];
        y[j] = sum + ((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
    }
}
""",
    "resel_relu": "static inline float resel_relu(float x) { return x > 0.0f ? x : 0.0f; }\n",
    "resel_elu": "static inline float resel_elu(float x) { return x > 0.0f ? x : expm1f(x); }\n",
    "resel_sigmoid": """\
static inline float resel_sigmoid(float x) {
    float e = expf(x > 0.0f ? -x : x);
    return (x > 0.0f ? 1.0f : e) / (1.0f + e);
}
""",
    "resel_silu": "static inline float resel_silu(float x) { return x * resel_sigmoid(x); }\n",
    "resel_gelu": """\
static inline float resel_gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.707106781f)); }
""",
    "resel_softplus": """\
static inline float resel_softplus(float x) {
    return (x > 0.0f ? x : 0.0f) + log1pf(expf(x > 0.0f ? -x : x));
}
""",
    "resel_clamp": """\
static inline float resel_clamp(float x, float low, float high) {
    return x < low ? low : x > high ? high : x;
}
""",
    "resel_decay": """\
/* e^x for x <= 0 in a form that compilers can do for several numbers at once: x = n ln 2 + r with
   |r| <= ln 2 / 2, the series of e^r, and 2^n by its bits. */
static inline float resel_decay(float x) {
    int32_t n;
    uint32_t bits;
    float r, power, series;
    x = x < -87.0f ? -87.0f : x;
    n = (int32_t)(x * 1.44269504f - 0.5f);
    r = (x - (float)n * 0.693359375f) + (float)n * 2.12194440e-4f;
    series = 1.0f / 720.0f + r * (1.0f / 5040.0f);
    series = 1.0f / 120.0f + r * series;
    series = 1.0f / 24.0f + r * series;
    series = 1.0f / 6.0f + r * series;
    series = 1.0f + r * (1.0f + r * (0.5f + r * series));
    bits = (uint32_t)(n + 127) << 23;
    memcpy(&power, &bits, sizeof power);
    return series * power;
}
""",
    "resel_log_softmax": """\
static inline void resel_log_softmax(float *y, const float *x, int n) {
    float most = x[0], sum = 0.0f;
    int i;
    for (i = 1; i < n; i++) most = x[i] > most ? x[i] : most;
    for (i = 0; i < n; i++) sum += expf(x[i] - most);
    sum = most + logf(sum);
    for (i = 0; i < n; i++) y[i] = x[i] - sum;
}
""",
    "resel_rms_norm": """\
static inline void resel_rms_norm(float *y, const float *x, const float *w, float eps, int n) {
    float squares = 0.0f;
    int i;
    for (i = 0; i < n; i++) squares += x[i] * x[i];
    squares = 1.0f / sqrtf(squares / (float)n + eps);
    for (i = 0; i < n; i++) y[i] = x[i] * squares * w[i];
}
""",
    "resel_layer_norm": """\
static inline void resel_layer_norm(float *y, const float *x, const float *w, const float *b,
                                    float eps, int n) {
    float mean = 0.0f, squares = 0.0f;
    int i;
    for (i = 0; i < n; i++) mean += x[i];
    mean /= (float)n;
    for (i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    squares = 1.0f / sqrtf(squares / (float)n + eps);
    for (i = 0; i < n; i++) y[i] = (x[i] - mean) * squares * w[i] + b[i];
}
""",
    "resel_gru_gates": """\
/* From the products with the input, a (3 n), and with the memory, b (3 n): reset, update, new. */
static inline void resel_gru_gates(float *y, const float *a, const float *b, const float *h,
                                   int n) {
    int i;
    for (i = 0; i < n; i++) {
        float reset = resel_sigmoid(a[i] + b[i]);
        float update = resel_sigmoid(a[n + i] + b[n + i]);
        float fresh = tanhf(a[2 * n + i] + reset * b[2 * n + i]);
        y[i] = fresh + update * (h[i] - fresh);
    }
}
""",
    "resel_lstm_gates": """\
/* From the products with the input, a (4 n), and with the memory, b (4 n): in, keep, new, out. */
static inline void resel_lstm_gates(float *y, float *cell, const float *a, const float *b,
                                    const float *c, int n) {
    int i;
    for (i = 0; i < n; i++) {
        float in = resel_sigmoid(a[i] + b[i]);
        float keep = resel_sigmoid(a[n + i] + b[n + i]);
        float fresh = tanhf(a[2 * n + i] + b[2 * n + i]);
        cell[i] = keep * c[i] + in * fresh;
        y[i] = resel_sigmoid(a[3 * n + i] + b[3 * n + i]) * tanhf(cell[i]);
    }
}
""",
}


def functions_for(code: str) -> str:
    """The functions that a piece of C calls, and those that they call, before their callers."""
    wanted: set[str] = set()
    texts = [code]
    while texts:
        names = set(re.findall(r"\bresel_\w+", texts.pop())) & FUNCTIONS.keys() - wanted
        wanted |= names
        texts += [FUNCTIONS[name] for name in names]
    return "\n".join(FUNCTIONS[name] for name in FUNCTIONS if name in wanted)


def number(value: float) -> str:
    """A float as C writes it, the same to the last bit."""
    text = f"{np.float32(value):.9g}"
    return text + ("f" if any(mark in text for mark in ".e") else ".0f")


def array(kind: str, name: str, values: NDArray[np.generic]) -> str:
    """A constant array, flat."""
    flat = values.reshape(-1)
    words: Iterable[str]
    if kind == "resel_weight" and flat.dtype == np.float16:
        words = (f"0x{bits:04x}" for bits in flat.view(np.uint16).tolist())
    elif kind == "int":
        words = map(str, flat.tolist())
    else:
        words = map(number, flat.tolist())
    listed = list(words)
    lines = [
        "    " + ", ".join(listed[at : at + _PER_LINE]) for at in range(0, len(listed), _PER_LINE)
    ]
    return f"static const {kind} {name}[{len(listed)}] = {{\n" + ",\n".join(lines) + "\n};\n"
