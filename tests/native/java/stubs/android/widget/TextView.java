package android.widget;

public class TextView extends android.view.View {
  public final void setText(CharSequence text) {}
}
