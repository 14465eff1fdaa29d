@file:JvmName("Assets")

package tvmake

import android.content.Context
import java.io.File
import tvmake.android.AssetFiles

/**
  * Load a package from the app's assets. It is unpacked into the app's own directory on the first call, which takes as
  * long as the flash memory needs, so call it outside of the main thread.
 *
  * @param name the directory in the assets
 */
fun Context.openPackage(name: String = "package"): Package =
    Package.open(AssetFiles(assets, name), File(noBackupFilesDir, "tvmake/$name"))
