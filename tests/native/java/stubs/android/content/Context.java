package android.content;

public abstract class Context {
  public android.content.res.AssetManager getAssets() {
    return null;
  }

  public java.io.File getNoBackupFilesDir() {
    return null;
  }
}
