package tvmake;

import java.io.IOException;
import java.io.InputStream;

/** The files of a package wherever they lie: an app's assets, a jar. */
public interface PackageFiles {
  /** Their names: {@code mod.json}, {@code mod.so}, {@code mod.params} and what else there is. */
  String[] list() throws IOException;

  /** The content of one. */
  InputStream open(String name) throws IOException;
}
