"""Small TFLite models, written with the schema's classes, so that the tests do not need TensorFlow."""

from dataclasses import dataclass, field

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

TYPES = {
    "float16": schema.TensorType.FLOAT16,
    "float32": schema.TensorType.FLOAT32,
    "int8": schema.TensorType.INT8,
    "int16": schema.TensorType.INT16,
    "int4": schema.TensorType.INT4,
    "int32": schema.TensorType.INT32,
    "int64": schema.TensorType.INT64,
    "complex64": schema.TensorType.COMPLEX64,
    "bool": schema.TensorType.BOOL,
    "string": schema.TensorType.STRING,
}
VERSIONS_OF_INT8 = {
    schema.BuiltinOperator.CONV_2D: 3,
    schema.BuiltinOperator.MAX_POOL_2D: 2,
    schema.BuiltinOperator.FULLY_CONNECTED: 4,
    schema.BuiltinOperator.TRANSPOSE_CONV: 3,
}


@dataclass
class Builder:
    """One graph; tensors are identified by their index."""

    graph: schema.SubGraphT = field(default_factory=schema.SubGraphT)
    buffers: list = field(default_factory=lambda: [schema.BufferT()])
    codes: list = field(default_factory=list)

    def __post_init__(self):
        self.graph.tensors, self.graph.operators = [], []

    def tensor(self, name, shape, dtype="float32", data=None, scale=None, zero_point=0, axis=0, open_axes=()):
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type = name, list(shape), TYPES[dtype]
        if open_axes:
            tensor.shapeSignature = [-1 if a in open_axes else extent for a, extent in enumerate(shape)]
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = (
                packed(data) if dtype == "int4" else np.frombuffer(np.ascontiguousarray(data, dtype).tobytes(), "uint8")
            )
            self.buffers.append(buffer)
            tensor.buffer = len(self.buffers) - 1
        if scale is not None:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = np.atleast_1d(np.float32(scale))
            tensor.quantization.zeroPoint = np.full(len(tensor.quantization.scale), zero_point, "int64")
            tensor.quantization.quantizedDimension = axis
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def call(self, operator, inputs, output, options=None, kind=None, custom=None):
        code = schema.OperatorCodeT()
        code.builtinCode = operator
        code.deprecatedBuiltinCode = min(operator, 127)
        code.customCode = custom
        # LiteRT's int8 kernels are later versions of some operators.
        is_int8 = any(self.graph.tensors[index].type == schema.TensorType.INT8 for index in inputs)
        code.version = VERSIONS_OF_INT8.get(operator, 1) if is_int8 else 1
        self.codes.append(code)
        node = schema.OperatorT()
        node.opcodeIndex, node.inputs = len(self.codes) - 1, list(inputs)
        node.outputs = list(output) if isinstance(output, list) else [output]
        if options is not None:
            node.builtinOptions, node.builtinOptionsType = options, kind
        self.graph.operators.append(node)
        return output

    def part(self, inputs, outputs) -> schema.SubGraphT:
        """This graph with its ends, for a model of several graphs that share buffers and codes."""
        self.graph.inputs, self.graph.outputs = list(inputs), list(outputs)
        return self.graph

    def finish(self, inputs, outputs, others=()) -> bytes:
        self.part(inputs, outputs)
        model = schema.ModelT()
        model.version, model.subgraphs = 3, [self.graph, *others]
        model.buffers, model.operatorCodes = self.buffers, self.codes
        model.description = "made by a test"
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def packed(integers: np.ndarray) -> np.ndarray:
    """4-bit integers, two in a byte, the first in the lower half."""
    flat = np.ravel(integers).astype("int8").view("uint8") & 15
    low, high = np.append(flat, np.zeros(flat.size % 2, "uint8")).reshape(-1, 2).T
    return low | high << 4


def conv_options(padding=schema.Padding.SAME, activation=schema.ActivationFunctionType.RELU):
    options = schema.Conv2DOptionsT()
    options.padding, options.strideH, options.strideW, options.fusedActivationFunction = padding, 1, 1, activation
    options.dilationHFactor = options.dilationWFactor = 1
    return options


def pool_options():
    options = schema.Pool2DOptionsT()
    options.padding = schema.Padding.VALID
    options.filterHeight = options.filterWidth = options.strideH = options.strideW = 2
    return options


def reshape_options(shape):
    options = schema.ReshapeOptionsT()
    options.newShape = list(shape)
    return options


OP, KIND = schema.BuiltinOperator, schema.BuiltinOptions


def convolutional(quantised: bool) -> bytes:
    """8×8×3 image → conv 3×3 and ReLU → max pool 2×2 → dense, to 5 scores; float32, or int8 throughout."""
    random = np.random.default_rng(0)
    b = Builder()
    dtype = "int8" if quantised else "float32"

    def weights(name, shape):
        if not quantised:
            return b.tensor(name, shape, data=random.normal(size=shape) * 0.3)
        scales = random.uniform(0.005, 0.01, shape[0]) if len(shape) == 4 else [0.01]
        return b.tensor(name, shape, "int8", random.integers(-127, 128, shape), scales)

    def bias(name, weight, scale):
        count = b.graph.tensors[weight].shape[0]
        if not quantised:
            return b.tensor(name, [count], data=random.normal(size=count))
        scales = b.graph.tensors[weight].quantization.scale * np.float32(scale)
        return b.tensor(name, [count], "int32", random.integers(-500, 500, count), scales)

    def activation(name, shape, scale, zero_point, **settings):
        quantisation = {"scale": scale, "zero_point": zero_point} if quantised else {}
        return b.tensor(name, shape, dtype, **quantisation, **settings)

    image = activation("serving/image:0", [1, 8, 8, 3], 0.02, 3, open_axes=(0,))
    kernel = weights("kernel", [16, 3, 3, 3])
    conv = activation("conv", [1, 8, 8, 16], 0.03, -128)
    b.call(OP.CONV_2D, [image, kernel, bias("conv_bias", kernel, 0.02)], conv, conv_options(), KIND.Conv2DOptions)
    pooled = activation("pooled", [1, 4, 4, 16], 0.03, -128)
    b.call(OP.MAX_POOL_2D, [conv], pooled, pool_options(), KIND.Pool2DOptions)
    flat = activation("flat", [1, 256], 0.03, -128)
    target = b.tensor("shape", [2], "int32", [-1, 256])
    b.call(OP.RESHAPE, [pooled, target], flat, reshape_options([-1, 256]), KIND.ReshapeOptions)
    dense = weights("dense", [5, 256])
    scores = activation("scores", [1, 5], 0.1, 10)
    b.call(
        OP.FULLY_CONNECTED,
        [flat, dense, bias("dense_bias", dense, 0.03)],
        scores,
        schema.FullyConnectedOptionsT(),
        KIND.FullyConnectedOptions,
    )
    return b.finish([image], [scores])


def resizable() -> bytes:
    """A convolution 3×3 without padding of an image whose height is not in the file."""
    b = Builder()
    image = b.tensor("image", [1, 1, 8, 3], open_axes=(1,))
    kernel, bias = b.tensor("kernel", [4, 3, 3, 3], data=np.ones([4, 3, 3, 3])), b.tensor("bias", [4], data=np.ones(4))
    conv = b.tensor("conv", [1, 1, 6, 4], open_axes=(1,))
    options = conv_options(padding=schema.Padding.VALID)
    return b.finish([image], [b.call(OP.CONV_2D, [image, kernel, bias], conv, options, KIND.Conv2DOptions)])


def lookup() -> bytes:
    """int32 indices (4,) into a table of 7 rows."""
    b = Builder()
    ids = b.tensor("ids", [4], "int32")
    table = b.tensor("table", [7, 16], data=np.arange(112).reshape(7, 16))
    return b.finish(
        [ids], [b.call(OP.GATHER, [table, ids], b.tensor("rows", [4, 16]), schema.GatherOptionsT(), KIND.GatherOptions)]
    )


def with_operators(*operators) -> bytes:
    """A chain of (operator, custom name) on a float32 vector."""
    b = Builder()
    first = last = b.tensor("x", [4])
    for index, (operator, custom) in enumerate(operators):
        last = b.call(operator, [last], b.tensor(f"y{index}", [4]), custom=custom)
    return b.finish([first], [last])


def with_shared_names() -> bytes:
    b = Builder()
    x, y, z = b.tensor("x", [4]), b.tensor("same", [4]), b.tensor("same", [4])
    b.call(OP.ABS, [x], y)
    b.call(OP.NEG, [y], z)
    return b.finish([x], [z])


def with_string_input() -> bytes:
    b = Builder()
    x = b.tensor("words", [4], "string")
    return b.finish([x], [x])
