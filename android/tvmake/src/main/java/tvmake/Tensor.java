package tvmake;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A value in memory, row by row, in this machine's byte order.
 *
  * <p>{@link #of} copies an array. A tensor that is reused is better {@link #allocate allocated} once and filled through
  * {@link #bytes}: its memory is outside of Java's heap, where packages read and write it directly.
 *
  * <p>Several threads may use a tensor as long as none of them writes, and {@code Package.run} into it writes.
 */
public final class Tensor {
  private final DType dtype;
  private final long[] shape;
  private final ByteBuffer buffer; // from 0 to its limit; direct, or of an array

  private Tensor(DType dtype, long[] shape, ByteBuffer buffer) {
    this.dtype = dtype;
    this.shape = shape.clone();
    this.buffer = buffer.order(ByteOrder.nativeOrder());
    if (buffer.limit() != bytesOf(dtype, shape)) {
      throw PackageException.input(
          "tensor: " + TensorSpec.spelled(dtype, shape) + " has " + bytesOf(dtype, shape) + " bytes, " + buffer.limit()
              + " are given");
    }
  }

  /** A copy of values, as {@code float32}. */
  public static Tensor of(float[] values, long... shape) {
    ByteBuffer buffer = room(values.length, Float.BYTES);
    buffer.asFloatBuffer().put(values);
    return new Tensor(DType.FLOAT32, shape, buffer);
  }

  /** A copy of values, as {@code float64}. */
  public static Tensor of(double[] values, long... shape) {
    ByteBuffer buffer = room(values.length, Double.BYTES);
    buffer.asDoubleBuffer().put(values);
    return new Tensor(DType.FLOAT64, shape, buffer);
  }

  /** A copy of values, as {@code int32}. */
  public static Tensor of(int[] values, long... shape) {
    ByteBuffer buffer = room(values.length, Integer.BYTES);
    buffer.asIntBuffer().put(values);
    return new Tensor(DType.INT32, shape, buffer);
  }

  /** A copy of values, as {@code int64}. */
  public static Tensor of(long[] values, long... shape) {
    ByteBuffer buffer = room(values.length, Long.BYTES);
    buffer.asLongBuffer().put(values);
    return new Tensor(DType.INT64, shape, buffer);
  }

  /** A copy of bytes: of the elements of an 8-bit type, or of any other in this machine's order. */
  public static Tensor of(DType dtype, byte[] bytes, long... shape) {
    return new Tensor(dtype, shape, ByteBuffer.wrap(bytes.clone()));
  }

  /**
    * A tensor in an existing direct buffer, from its position to its limit; nothing is copied.
   *
    * @throws PackageException the buffer is not direct, is read-only, or has another size
   */
  public static Tensor wrap(DType dtype, ByteBuffer buffer, long... shape) {
    if (!buffer.isDirect() || buffer.isReadOnly()) {
      throw PackageException.input("tensor: the buffer is " + (buffer.isDirect() ? "read-only" : "not direct"));
    }
    return new Tensor(dtype, shape, buffer.slice());
  }

  /** Zeros outside of Java's heap. They are freed with the tensor, so keep and reuse it. */
  public static Tensor allocate(DType dtype, long... shape) {
    return new Tensor(dtype, shape, ByteBuffer.allocateDirect(sizeOf(dtype, shape)));
  }

  /** A tensor with an array of bytes. */
  static Tensor holding(DType dtype, byte[] bytes, long[] shape) {
    return new Tensor(dtype, shape, ByteBuffer.wrap(bytes));
  }

  public DType dtype() {
    return dtype;
  }

  public long[] shape() {
    return shape.clone();
  }

  long[] extents() {
    return shape;
  }

  /** Number of elements. */
  public int size() {
    return buffer.limit() / dtype.bytes();
  }

  /** The tensor's own memory, to read and write. */
  public ByteBuffer bytes() {
    return buffer.duplicate().order(ByteOrder.nativeOrder());
  }

  /**
   * A copy of the values of a {@code float32} tensor.
   *
    * @throws PackageException it has another type
   */
  public float[] floats() {
    need(DType.FLOAT32);
    float[] values = new float[size()];
    bytes().asFloatBuffer().get(values);
    return values;
  }

  /**
   * A copy of the values of a {@code float64} tensor.
   *
    * @throws PackageException it has another type
   */
  public double[] doubles() {
    need(DType.FLOAT64);
    double[] values = new double[size()];
    bytes().asDoubleBuffer().get(values);
    return values;
  }

  /**
   * A copy of the values of an {@code int32} tensor.
   *
    * @throws PackageException it has another type
   */
  public int[] ints() {
    need(DType.INT32);
    int[] values = new int[size()];
    bytes().asIntBuffer().get(values);
    return values;
  }

  /**
   * A copy of the values of an {@code int64} tensor.
   *
    * @throws PackageException it has another type
   */
  public long[] longs() {
    need(DType.INT64);
    long[] values = new long[size()];
    bytes().asLongBuffer().get(values);
    return values;
  }

  /** A copy of the bytes, of any type. */
  public byte[] toByteArray() {
    byte[] copy = new byte[buffer.limit()];
    bytes().get(copy);
    return copy;
  }

  /** {@code float32 [1, 10]}. */
  @Override
  public String toString() {
    return TensorSpec.spelled(dtype, shape);
  }

  private void need(DType wanted) {
    if (dtype != wanted) throw PackageException.input("tensor: it is " + this + ", not " + wanted);
  }

  private static ByteBuffer room(int elements, int bytes) {
    return ByteBuffer.wrap(new byte[Math.multiplyExact(elements, bytes)]).order(ByteOrder.nativeOrder());
  }

  /**
    * The number of bytes of an array or buffer for a tensor.
   *
    * @throws PackageException a dimension is negative, or the size exceeds Java's arrays
   */
  static int sizeOf(DType dtype, long[] shape) {
    long bytes = bytesOf(dtype, shape);
    if (bytes <= Integer.MAX_VALUE) return (int) bytes;
    throw PackageException.input("tensor: " + TensorSpec.spelled(dtype, shape) + " is too large for a Java buffer");
  }

  private static long bytesOf(DType dtype, long[] shape) {
    long bytes = dtype.bytes();
    try {
      for (long extent : shape) {
        if (extent < 0) throw PackageException.input("tensor: a dimension is negative in " + TensorSpec.spelled(dtype, shape));
        bytes = Math.multiplyExact(bytes, extent);
      }
    } catch (ArithmeticException error) {
      return Long.MAX_VALUE;
    }
    return bytes;
  }
}
