package tvmake;

import java.util.Arrays;

/** A package's description of one input, output or state. */
public final class TensorSpec {
  /** A dimension that may differ between runs. */
  public static final long DYNAMIC = -1;

  private final String name;
  private final DType dtype;
  private final long[] shape;

  TensorSpec(String name, DType dtype, long[] shape) {
    this.name = name;
    this.dtype = dtype;
    this.shape = shape;
  }

  /** As in the source model. */
  public String name() {
    return name;
  }

  public DType dtype() {
    return dtype;
  }

  /** The dimensions; {@link #DYNAMIC} for dynamic ones. */
  public long[] shape() {
    return shape.clone();
  }

  /** Whether a tensor has this type and shape. */
  public boolean takes(Tensor tensor) {
    long[] given = tensor.extents();
    if (tensor.dtype() != dtype || given.length != shape.length) return false;
    for (int axis = 0; axis < shape.length; ++axis) {
      if (shape[axis] != DYNAMIC && shape[axis] != given[axis]) return false;
    }
    return true;
  }

  /** {@code 'image' float32 [1, 3, 224, 224]}, with a question mark for a dynamic dimension. */
  @Override
  public String toString() {
    return "'" + name + "' " + spelled(dtype, shape);
  }

  static String spelled(DType dtype, long[] shape) {
    return dtype + " " + Arrays.toString(shape).replace(Long.toString(DYNAMIC), "?");
  }
}
