"""Operators and element types of TensorFlow Lite, in the order of its schema, and floating-point operations.

They are those of ``schema.fbs`` of LiteRT 2.3 (https://github.com/google-ai-edge/LiteRT).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from opweave.adapters.graphs.element_flops import Formula, formula_flops

Shape = tuple[int, ...]

_KINDS = """
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
    FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
    LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH
    SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
    BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
    BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM
    ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE
    TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK
    LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL
    FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL
    REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND
    HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM
    BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
    HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE
    ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU
    DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2
    UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE
    STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE
    STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE
    STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG
    STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT
    STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT
    STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL
    STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE
    STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
"""
KINDS = tuple(_KINDS.split())
"""Builtin operators by number."""

CUSTOM = KINDS.index("CUSTOM")

_TYPES = """
    float32 float16 int32 uint8 int64 string bool int16 complex64 int8 float64 complex128 uint64 resource variant
    uint32 uint16 int4 bfloat16 int2 uint4 float8_e4m3fn float8_e5m2
"""
TYPES = tuple(_TYPES.split())
"""Element types by number."""

_BITS = {
    2: "int2",
    4: "int4 uint4",
    8: "bool float8_e4m3fn float8_e5m2 int8 uint8",
    16: "bfloat16 float16 int16 uint16",
    32: "float32 int32 resource uint32",
    64: "complex64 float64 int64 uint64 variant",
    128: "complex128",
}
BITS = {name: bits for bits, names in _BITS.items() for name in names.split()}
"""Bits of one element. Elements smaller than a byte are packed; of a resource or a variant, only the handle counts."""

VIEWS = frozenset({"BITCAST", "EXPAND_DIMS", "RESHAPE", "SQUEEZE"})
"""Operators whose output shares the storage of their first input."""

FOLDED = frozenset({"DENSIFY", "DEQUANTIZE"})
"""Operators that the interpreter runs once if their input is constant, and whose output then stays."""

CALLS = {
    "CALL": (0,),
    "CALL_ONCE": (0,),
    "IF": (0, 1),
    "STABLEHLO_COMPOSITE": (1,),
    "STABLEHLO_WHILE": (0, 1),
    "WHILE": (0, 1),
}
"""Operators that run other subgraphs, and the fields of their options that name these."""

LOOKS = frozenset({"HASHTABLE_FIND", "HASHTABLE_SIZE", "READ_VARIABLE"})
"""Operators that read the variable or table whose handle is their first input."""

CHANGES = frozenset({"ASSIGN_VARIABLE", "HASHTABLE_IMPORT"})
"""Operators that change it."""

_COMMON = """
    ADD_N=add ARG_MAX=argmax ARG_MIN=argmin AVERAGE_POOL_2D=average BITWISE_XOR=bitwise_xor EQUAL=eq FLOOR_DIV=div
    FLOOR_MOD=mod GREATER=gt GREATER_EQUAL=ge HARD_SWISH=hardswish L2_NORMALIZATION=lpnormalization LESS=lt
    LESS_EQUAL=le LOCAL_RESPONSE_NORMALIZATION=lrn LOGISTIC=sigmoid MAX_POOL_2D=max NOT_EQUAL=ne REDUCE_ALL=all
    REDUCE_ANY=any REDUCE_MAX=amax REDUCE_MIN=amin REDUCE_PROD=prod RELU_0_TO_1=clip RELU_N1_TO_1=clip SELECT=where
    SELECT_V2=where
    STABLEHLO_ADD=add STABLEHLO_DIVIDE=div STABLEHLO_MULTIPLY=mul STABLEHLO_SUBTRACT=sub STABLEHLO_LOGISTIC=sigmoid
"""
COMMON = dict(pair.split("=") for pair in _COMMON.split())
"""Words that other frameworks use for a kind."""


def kind_of(code: int) -> str:
    """Name of a builtin operator; one that is newer than this list has a number.

    Examples
    --------
    >>> kind_of(3), kind_of(100_000)
    ('CONV_2D', 'BUILTIN_100000')
    """
    return KINDS[code] if 0 <= code < len(KINDS) else f"BUILTIN_{code}"


def operator_flops(kind: str, shapes: Sequence[Shape], made: Shape) -> float:
    """Count the floating-point operations of an operator.

    Parameters
    ----------
    kind
        Its kind.
    shapes
        Shapes of its inputs by position; () also for omitted inputs.
    made
        Shape of its first output.

    Returns
    -------
    float
        Two for a multiply-accumulate. Convolutions, products and recurrent layers are counted by their formulas, and
        everything else by :func:`~opweave.adapters.graphs.element_flops.element_flops`. Activations that are fused into
        another operator are not counted; pools count one operation per output element, whatever their windows.

    Examples
    --------
    >>> operator_flops("FULLY_CONNECTED", [(1, 8), (4, 8), (4,)], (1, 4))
    64.0
    """
    return formula_flops(_FORMULAS.get(kind), COMMON.get(kind, kind), shapes, made)


def _product(shapes: Sequence[Shape], made: Shape) -> float:
    """The summed dimension is what is left of a matrix of the first factor without the rows of the result."""
    rows = made[-2]
    return 2.0 * math.prod(made) * (math.prod(shapes[0][-2:]) // rows if rows else 0)


def _recurrent(weights: slice) -> Callable[[Sequence[Shape], Shape], float]:
    """All weight matrices of the layer, once for each step of each sequence."""

    def count(shapes: Sequence[Shape], _: Shape) -> float:
        matrices = [shape for shape in shapes[weights] if len(shape) == 2]
        return 2.0 * math.prod(shapes[0][:-1]) * sum(map(math.prod, matrices))

    return count


_FORMULAS: Mapping[str, Formula] = {
    "BATCH_MATMUL": _product,
    "BIDIRECTIONAL_SEQUENCE_LSTM": _recurrent(slice(1, 35)),
    "BIDIRECTIONAL_SEQUENCE_RNN": _recurrent(slice(1, 8)),
    "CONV_2D": (None, 1, 1, None),  # weights are (output channels, height, width, input channels)
    "CONV_3D": (None, 1, 0, 4),  # (depth, height, width, input channels, output channels)
    "CONV_3D_TRANSPOSE": (2, 1, 0, -1),
    "Convolution2DTransposeBias": (0, 1, 0, -1),
    "DEPTHWISE_CONV_2D": (None, 1, 1, 3),
    "FULLY_CONNECTED": (None, 1, -1, None),
    "TRANSPOSE_CONV": (2, 1, 0, -1),
    **dict.fromkeys(("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"), _recurrent(slice(1, 18))),
    **dict.fromkeys(("RNN", "SVDF", "UNIDIRECTIONAL_SEQUENCE_RNN"), _recurrent(slice(1, 3))),
}
