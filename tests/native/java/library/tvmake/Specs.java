package tvmake;

/** Inputs that no package was made for. */
public final class Specs {
  private Specs() {}

  public static TensorSpec input(String dtype, long[] shape) {
    return new TensorSpec("image", DType.of(dtype), shape);
  }
}
