package android.content.res;

import java.io.IOException;
import java.io.InputStream;

public final class AssetManager {
  public String[] list(String path) throws IOException {
    return null;
  }

  public InputStream open(String name) throws IOException {
    return null;
  }
}
