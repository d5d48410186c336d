"""The provider `gguf`: a model file on this machine, run by llama.cpp in its own process."""
