plugins { id("com.android.application") }

android {
    namespace = "example.app"
    compileSdk = 34
    defaultConfig {
        applicationId = "example.app" // yours
        minSdk = providers.gradleProperty("tvmake.minSdk").get().toInt()
        targetSdk = 34
        versionCode = 1
        versionName = "1.0"
        ndk { abiFilters += providers.gradleProperty("tvmake.abi").get() }
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }
    // Weights hardly compress, and are read faster uncompressed.
    androidResources { noCompress += listOf("params", "npz") }
}

dependencies { implementation(project(":tvmake")) }
