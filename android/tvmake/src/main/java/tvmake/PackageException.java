package tvmake;

import java.nio.charset.StandardCharsets;

/** What is wrong, where, and often on a second line what to do about it. */
public final class PackageException extends RuntimeException {
  private static final long serialVersionUID = 1L;
  private static final int DEVICE_CODE = 3;

  /** Who can mend an error. */
  public enum Fault {
    /** The package, or an argument of yours. */
    INPUT,
    /** This device: it lacks something, or what it ran failed. */
    DEVICE
  }

  private final Fault fault;

  private PackageException(Fault fault, String message) {
    super(message);
    this.fault = fault;
  }

  /** For native code: the code of the C interface, and UTF-8. */
  PackageException(int code, byte[] message) {
    this(code == DEVICE_CODE ? Fault.DEVICE : Fault.INPUT, new String(message, StandardCharsets.UTF_8));
  }

  static PackageException input(String message) {
    return new PackageException(Fault.INPUT, message);
  }

  static PackageException device(String message) {
    return new PackageException(Fault.DEVICE, message);
  }

  /** Whether the package or an argument is wrong, or this device. */
  public Fault fault() {
    return fault;
  }
}
