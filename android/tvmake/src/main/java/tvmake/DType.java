package tvmake;

/** The type of a tensor's elements, as packages spell it. */
public enum DType {
  FLOAT16(2),
  FLOAT32(4),
  FLOAT64(8),
  BFLOAT16(2),
  INT8(1),
  INT16(2),
  INT32(4),
  INT64(8),
  UINT8(1),
  UINT16(2),
  UINT32(4),
  UINT64(8),
  BOOL(1);

  private final int bytes;

  DType(int bytes) {
    this.bytes = bytes;
  }

  /** Bytes of one element. */
  public int bytes() {
    return bytes;
  }

  /** As in packages: {@code float32}. */
  @Override
  public String toString() {
    return name().toLowerCase(java.util.Locale.ROOT);
  }

  /**
    * The type with a package's name for it.
   *
    * @throws PackageException Java has no such tensors
   */
  static DType of(String spelling) {
    for (DType dtype : values()) {
      if (dtype.toString().equals(spelling)) return dtype;
    }
    throw PackageException.input("dtype '" + spelling + "': Java has no such tensors");
  }
}
