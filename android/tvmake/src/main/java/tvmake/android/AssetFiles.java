package tvmake.android;

import android.content.res.AssetManager;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import tvmake.PackageFiles;

/** A package that is unpacked in a directory of an app's assets. */
public final class AssetFiles implements PackageFiles {
  private final AssetManager assets;
  private final String directory;

  /**
   * @param assets of the app: {@code context.getAssets()}
   * @param directory in them, for example {@code package}
   */
  public AssetFiles(AssetManager assets, String directory) {
    this.assets = assets;
    this.directory = directory;
  }

  @Override
  public String[] list() throws IOException {
    List<String> names = new ArrayList<>();
    for (String name : assets.list(directory)) {
      String[] inside = assets.list(directory + "/" + name);
      if (inside.length == 0) names.add(name);
      for (String file : inside) names.add(name + "/" + file);
    }
    return names.toArray(new String[0]);
  }

  @Override
  public InputStream open(String name) throws IOException {
    return assets.open(directory + "/" + name);
  }
}
