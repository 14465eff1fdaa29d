#include "layers.h"

#if TVMAKE_HAS_CLML

#include <cstring>

namespace tvmake {
namespace clml {
namespace {

constexpr cl_uint kDimensions = 4;  // of all tensors; TVM's runtime for CLML passes it, too

// One layer being made.
class Layer {
 public:
  Layer(const Library& library, const Graph& graph, int index, Tensors* tensors)
      : library_(library), graph_(graph), index_(index), node_(graph.nodes[index]), tensors_(tensors) {}

  cl_ml_op_qcom Make() {
    Create();
    Accept(code_, node_.name);
    if (op_ == nullptr) throw Refusal(node_.name + ": nothing was made");
    return op_;
  }

 private:
  void Create() {
    if (node_.Is("nn.conv2d")) Convolution();
    else if (node_.Is("nn.batch_norm")) BatchNorm();
    else if (node_.Is("nn.relu")) Activation(CL_ACTIVATION_RELU);
    else if (node_.Is("nn.relu6")) Activation(CL_ACTIVATION_RELU6);
    else if (node_.Is("nn.max_pool2d")) Pooling(CL_POOLING_MODE_MAX_QCOM);
    else if (node_.Is("nn.avg_pool2d")) Pooling(CL_POOLING_MODE_AVERAGE_EXCLUDE_PADDING_QCOM);
    else if (node_.Is("nn.global_avg_pool2d")) GlobalPooling();
    else if (node_.Is("nn.softmax")) Softmax();
    else if (node_.Is("reshape")) Reshape();
    else if (node_.Is("nn.dense")) Dense();
    else if (node_.Is("nn.batch_matmul")) Product();
    else if (node_.Is("clip")) Clip();
    else if (node_.Is("concatenate")) Concat();
    else if (node_.Is("nn.pad")) Pad();
    else if (node_.Is("nn.depth_to_space")) DepthToSpace();
    else if (node_.Is("nn.upsampling")) Resize();
    else Binary();
  }

  Extents Shape(int node) const { return ExtentsOf(graph_.nodes[node].shape); }
  cl_ml_tensor_qcom Input(size_t which, Layout layout, const Extents& extents) {
    return tensors_->Read(node_.inputs.at(which), layout, extents)->handle;
  }
  cl_ml_tensor_qcom Input(size_t which = 0) { return Input(which, Layout::kOptimal, Shape(node_.inputs.at(which))); }
  cl_ml_tensor_qcom Output(Layout layout, const Extents& extents) {
    return tensors_->Write(index_, layout, extents)->handle;
  }
  cl_ml_tensor_qcom Output() { return Output(Layout::kOptimal, Shape(index_)); }

  cl_arithmetic_mode_qcom Arithmetic() const {
    if (node_.dtype == "float32") return CL_ARITHMETIC_MODE_FP32_QCOM;
    const bool is_wide = node_.Has("accumulate") && node_.Text("accumulate") == "float32";
    return is_wide ? CL_ARITHMETIC_MODE_FP16_ACC32_QCOM : CL_ARITHMETIC_MODE_FP16_QCOM;
  }
  static cl_ml_value_qcom Number(double value) {
    cl_ml_value_qcom number = {};
    number.u.fp32 = static_cast<cl_float>(value);
    number.type = CL_FLOAT;
    return number;
  }

  // Per axis of the image: height, then width.
  void Axes(const char* key, cl_uint* values) const {
    const std::vector<int64_t> given = node_.Ints(key);
    if (given.size() != 2) throw Refusal(node_.name + ": " + key + " of another length than 2");
    for (size_t i = 0; i < 2; ++i) values[i] = static_cast<cl_uint>(given[i]);
  }
  void Padding(cl_uint* before, cl_uint* after) const {
    const std::vector<int64_t> given = node_.Ints("padding");  // top, left, bottom, right
    if (given.size() != 4) throw Refusal(node_.name + ": padding of another length than 4");
    for (size_t i = 0; i < 2; ++i) {
      before[i] = static_cast<cl_uint>(given[i]);
      after[i] = static_cast<cl_uint>(given[i + 2]);
    }
  }

  void Convolution() {
    const size_t inputs = node_.inputs.size();
    const bool has_bias = inputs == 3 || inputs == 7, has_norm = inputs >= 6;
    if (inputs < 2 || inputs == 4 || inputs == 5 || inputs > 7) throw Refusal(node_.name + ": too many arguments");
    Library::Convolution made = {};
    cl_ml_op_convolution_desc_qcom& description = made.description;
    const Extents image = Shape(node_.inputs[0]);
    Extents weight = Shape(node_.inputs[1]);
    const int64_t groups = node_.Int("groups");
    if (groups == 1) {
      description.mode = CL_CONVOLUTION_MODE_CONVOLUTION_QCOM;
    } else if (groups == image[1] && weight[0] == image[1] && weight[1] == 1) {
      description.mode = CL_CONVOLUTION_MODE_DEPTHWISE_QCOM;
      weight = {1, weight[0], weight[2], weight[3]};
    } else {
      throw Refusal(node_.name + ": " + std::to_string(groups) + " groups");
    }
    description.group_count = 1;
    description.num_dimensions = kDimensions;
    Padding(description.input_padding_before, description.input_padding_after);
    Axes("strides", description.filter_stride);
    Axes("dilation", description.dilation);
    description.arithmetic_mode = Arithmetic();
    made.input = Input();
    made.weight = Input(1, Layout::kOptimal, weight);
    made.bias = has_bias ? Input(2) : tensors_->Nothing();
    if (has_norm) Normalisation(has_bias ? 3 : 2, &made);
    cl_ml_op_activation_desc_qcom activation = {};
    if (node_.Has("activation_type")) {
      const bool is_six = node_.Text("activation_type") == "relu6";
      activation = {is_six ? CL_ACTIVATION_RELU6 : CL_ACTIVATION_RELU, CL_PROPAGATE_NAN_QCOM, Arithmetic()};
      made.activation = &activation;
    }
    made.output = Output();
    code_ = library_.CreateConvolution(tensors_->context(), made, &op_);
  }

  // Its four weights, one number a channel, from the argument `first` on: gamma, beta, mean, variance.
  void Normalisation(size_t first, Library::Convolution* made) {
    const auto channels = static_cast<cl_uint>(graph_.nodes[node_.inputs.at(first)].shape.at(0));
    const Extents extents = {1, channels, 1, 1};
    made->scale = Input(first, Layout::kOptimal, extents);
    made->shift = Input(first + 1, Layout::kOptimal, extents);
    made->mean = Input(first + 2, Layout::kOptimal, extents);
    made->variance = Input(first + 3, Layout::kOptimal, extents);
    normalisation_ = {CL_BATCHNORM_MODE_SPATIAL_QCOM, Arithmetic()};
    const auto epsilon = static_cast<float>(node_.Number("epsilon"));
    std::memcpy(&properties_[1], &epsilon, sizeof(epsilon));
    made->normalisation = &normalisation_;
    made->properties = properties_;
  }

  void BatchNorm() {
    Library::Convolution made = {};
    made.input = Input();
    Normalisation(1, &made);
    made.output = Output();
    code_ = library_.CreateBatchNorm(tensors_->context(), made, &op_);
  }

  void Activation(cl_activation_function_qcom function) {
    const cl_ml_tensor_qcom input = Input(), output = Output();
    code_ = library_.CreateActivation(tensors_->context(), {function, CL_PROPAGATE_NAN_QCOM, Arithmetic()}, input,
                                      tensors_->Nothing(), output, &op_);
  }

  void Pooling(cl_pooling_mode_qcom mode) {
    cl_ml_op_pooling_desc_qcom description = {};
    description.mode = mode;
    Padding(description.input_padding_before, description.input_padding_after);
    Axes("strides", description.stride);
    Axes("pool_size", description.window_size);
    Pool(&description);
  }

  void GlobalPooling() {
    const Extents image = Shape(node_.inputs.at(0));
    cl_ml_op_pooling_desc_qcom description = {};
    description.mode = CL_POOLING_MODE_AVERAGE_EXCLUDE_PADDING_QCOM;
    for (size_t i = 0; i < 2; ++i) {
      description.stride[i] = 1;
      description.window_size[i] = image[i + 2];
    }
    Pool(&description);
  }

  void Pool(cl_ml_op_pooling_desc_qcom* description) {
    const Extents image = Shape(node_.inputs.at(0));
    description->num_dimensions = kDimensions;
    description->nan_propagation = CL_PROPAGATE_NAN_QCOM;
    description->arithmetic_mode = Arithmetic();
    // The result may be requested without the image's axes.
    Extents output = Shape(index_);
    if (graph_.nodes[index_].shape.size() < 4) output = {image[0], image[1], 1, 1};
    const cl_ml_tensor_qcom input = Input(), written = Output(Layout::kOptimal, output);
    code_ = library_.CreatePooling(tensors_->context(), *description, input, tensors_->Nothing(), written, &op_);
  }

  // Over the channels; any axis is that of the channels when those before and behind it are counted together.
  void Softmax() {
    const std::vector<int64_t>& shape = node_.shape;
    const auto rank = static_cast<int64_t>(shape.size());
    int64_t axis = node_.Int("axis");
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) throw Refusal(node_.name + ": no axis " + std::to_string(axis));
    Extents extents = {1, static_cast<cl_uint>(shape[axis]), 1, 1};
    for (int64_t i = 0; i < axis; ++i) extents[0] *= static_cast<cl_uint>(shape[i]);
    for (int64_t i = axis + 1; i < rank; ++i) extents[2] *= static_cast<cl_uint>(shape[i]);
    const cl_ml_tensor_qcom input = Input(0, Layout::kOptimal, extents), output = Output(Layout::kOptimal, extents);
    code_ = library_.CreateSoftmax(tensors_->context(),
                                   {CL_SOFTMAX_ALGORITHM_ACCURATE_QCOM, CL_SOFTMAX_MODE_SPATIAL_QCOM, Arithmetic()},
                                   input, output, &op_);
  }

  void Reshape() {
    const cl_ml_tensor_qcom input = Input(), output = Output();
    code_ = library_.CreateReshape(tensors_->context(), input, output, &op_);
  }

  // [1, k] by [k, n], plus [n]; without the bias it is a product as any other.
  void Dense() {
    if (node_.inputs.size() == 2) return Product();
    const Extents from = Shape(node_.inputs.at(0)), weight = Shape(node_.inputs.at(1));
    if (from[0] != 1 || node_.inputs.size() != 3) throw Refusal(node_.name + ": more than one row, and a bias");
    const cl_ml_tensor_qcom input = Input(), matrix = Input(1, Layout::kOptimal, {1, 1, weight[0], weight[1]});
    const cl_ml_tensor_qcom bias = Input(2, Layout::kOptimal, {1, weight[1], 1, 1}), output = Output();
    code_ = library_.CreateFullyConnected(tensors_->context(), {1, CL_FC_WEIGHT_TRANSFORM_NONE_QCOM, Arithmetic()},
                                          input, matrix, bias, output, &op_);
  }

  // [m, k] by [k, n]; axes of one before them count for nothing.
  void Product() {
    const auto matrix = [&](int node) {
      const std::vector<int64_t>& shape = graph_.nodes[node].shape;
      if (shape.size() < 2) throw Refusal(node_.name + ": a vector");
      for (size_t i = 0; i + 2 < shape.size(); ++i) {
        if (shape[i] != 1) throw Refusal(node_.name + ": more than one matrix");
      }
      return std::array<cl_uint, 2>{static_cast<cl_uint>(shape[shape.size() - 2]), static_cast<cl_uint>(shape.back())};
    };
    const auto left = matrix(node_.inputs.at(0)), right = matrix(node_.inputs.at(1));
    const cl_ml_op_gemm_desc_qcom description = {
        left[0],   right[1],  left[1],     CL_GEMM_TRANSFORM_NONE_QCOM, CL_GEMM_TRANSFORM_NONE_QCOM,
        Number(1), Number(0), Arithmetic()};
    const cl_ml_tensor_qcom a = Input(0, Layout::kRows, {left[0], left[1], 1, 1});
    const cl_ml_tensor_qcom b = Input(1, Layout::kRows, {1, 1, right[0], right[1]});
    const cl_ml_tensor_qcom output = Output(Layout::kRows, {left[0], right[1], 1, 1});
    code_ = library_.CreateProduct(tensors_->context(), description, a, b, output, &op_);
  }

  void Clip() {
    const cl_ml_tensor_qcom input = Input(), output = Output();
    code_ = library_.CreateClip(
        tensors_->context(),
        {CL_CLIP_BY_VALUE_QCOM, Number(node_.Number("a_max")), Number(node_.Number("a_min")), Arithmetic()}, input,
        output, &op_);
  }

  void Binary() {
    const std::pair<const char*, cl_binary_op_qcom> kinds[] = {
        {"add", CL_TENSOR_OP_ADD_QCOM},    {"subtract", CL_TENSOR_OP_SUB_QCOM}, {"multiply", CL_TENSOR_OP_MUL_QCOM},
        {"divide", CL_TENSOR_OP_DIV_QCOM}, {"maximum", CL_TENSOR_OP_MAX_QCOM},  {"minimum", CL_TENSOR_OP_MIN_QCOM},
    };
    for (const auto& [name, kind] : kinds) {
      if (!node_.Is(name)) continue;
      const cl_ml_tensor_qcom left = Input(0), right = Input(1), output = Output();
      code_ = library_.CreateBinary(tensors_->context(), {kind, Number(1), Number(1), Number(0), Arithmetic()}, left,
                                    right, output, &op_);
      return;
    }
    throw Refusal(node_.name + ": not known to this program");
  }

  void Concat() {
    std::vector<cl_ml_tensor_qcom> inputs;
    for (size_t i = 0; i < node_.inputs.size(); ++i) inputs.push_back(Input(i));
    const cl_ml_tensor_qcom output = Output();
    const cl_ml_op_concat_desc_qcom description = {static_cast<cl_uint>(node_.Int("axis")),
                                                   static_cast<cl_uint>(inputs.size()), Arithmetic()};
    code_ = library_.CreateConcat(tensors_->context(), description, inputs.data(), output, &op_);
  }

  void Pad() {
    const std::vector<int64_t> width = node_.Ints("pad_width");  // top, bottom, left, right
    if (width.size() != 4) throw Refusal(node_.name + ": pads more than the image");
    cl_ml_op_pad_desc_qcom description = {};
    description.pad_mode = CL_PAD_MODE_CONSTANT_QCOM;
    for (size_t i = 0; i < 4; ++i) description.paddings[i] = static_cast<cl_uint>(width[i]);
    description.arithmetic_mode = Arithmetic();
    const cl_ml_tensor_qcom input = Input(), output = Output();
    code_ = library_.CreatePad(tensors_->context(), description, input, output, &op_);
  }

  void DepthToSpace() {
    const cl_ml_tensor_qcom input = Input(), output = Output();
    code_ = library_.CreateDepthToSpace(tensors_->context(),
                                        {static_cast<cl_uint>(node_.Int("block_size")), Arithmetic()}, input, output,
                                        &op_);
  }

  // Bilinear. The second member is as TVM's runtime for CLML has it.
  void Resize() {
    const cl_ml_tensor_qcom input = Input(), output = Output();
    code_ = library_.CreateResize(tensors_->context(),
                                  {static_cast<cl_bool>(node_.Int("align_corners")), 0, Arithmetic()}, input, output,
                                  &op_);
  }

  const Library& library_;
  const Graph& graph_;
  const int index_;
  const Node& node_;
  Tensors* tensors_;
  cl_ml_op_batchnorm_desc_qcom normalisation_ = {};
  cl_ml_op_properties_qcom properties_[3] = {CL_ML_BATCH_NORM_OP_EPSILON_QCOM, 0, CL_ML_OP_PROPERTY_LIST_END_QCOM};
  cl_ml_op_qcom op_ = nullptr;
  cl_int code_ = 0;
};

}  // namespace

cl_ml_op_qcom MakeLayer(const Library& library, const Graph& graph, int node, Tensors* tensors) {
  return Layer(library, graph, node, tensors).Make();
}

}  // namespace clml
}  // namespace tvmake

#endif  // TVMAKE_HAS_CLML
