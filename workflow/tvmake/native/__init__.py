"""The C++ parts that TVM's wheel lacks, compiled on this machine when needed."""
