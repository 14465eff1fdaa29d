"""The device-side C++: what TVM's wheel lacks, compiled on this machine when it is needed."""
