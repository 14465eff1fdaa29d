package android.graphics;

public class BitmapFactory {
  public static Bitmap decodeStream(java.io.InputStream stream) {
    return null;
  }
}
