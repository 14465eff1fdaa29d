package android.widget;

public class ImageView extends android.view.View {
  public void setImageBitmap(android.graphics.Bitmap bitmap) {}
}
