// tvmake's packages for Android: Java and Kotlin over the native libraries in src/main/jniLibs.
plugins {
    id("com.android.library")
    id("org.jetbrains.kotlin.android")
}

android {
    namespace = "tvmake.library"
    compileSdk = 34
    defaultConfig {
        minSdk = providers.gradleProperty("tvmake.minSdk").get().toInt()
        consumerProguardFiles("consumer-rules.pro")
        ndk { abiFilters += providers.gradleProperty("tvmake.abi").get() }
    }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }
    kotlinOptions { jvmTarget = "1.8" }
}
