package tvmake;

import java.nio.charset.StandardCharsets;

/** The problem, its subject, and often a remedy on a second line. */
public final class PackageException extends RuntimeException {
  private static final long serialVersionUID = 1L;
  private static final int DEVICE_CODE = 3;

  /** Who can correct an error. */
  public enum Fault {
    /** The package, or the caller's argument. */
    INPUT,
    /** This device: it lacks a library or driver, or the run failed. */
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
