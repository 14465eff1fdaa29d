@file:JvmName("Tensors")

package tvmake

/** A copy of the values, as `float32`. */
fun FloatArray.toTensor(vararg shape: Long): Tensor = Tensor.of(this, *shape)

/** A copy of the values, as `int32`. */
fun IntArray.toTensor(vararg shape: Long): Tensor = Tensor.of(this, *shape)

/** A copy of the values, as `int64`. */
fun LongArray.toTensor(vararg shape: Long): Tensor = Tensor.of(this, *shape)

/** Run the network once: `network.run("image" to pixels.toTensor(1, 1, 8, 8))`. */
fun Package.run(vararg inputs: Pair<String, Tensor>): Map<String, Tensor> = run(mapOf(*inputs))
