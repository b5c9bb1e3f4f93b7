//! A program of nvcc with the runtime linked statically (its default): `gpu_static SECONDS`. Launches one kernel 2,000 times a second at
//! most and prints as JSON how often. For the question whether probes on libcuda see what a static cudart launches.
#include <cstdio>
#include <cstdlib>
#include <ctime>

__global__ void static_kernel(float *out) {
    float value = threadIdx.x;
    for (int i = 0; i < 2000; i++) value = value * 1.0001f + 1.0f;
    out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

static double now() {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1.0;
    float *out;
    if (cudaMalloc(&out, 128 * 256 * sizeof(float)) != cudaSuccess) return 3;
    long launches = 0;
    for (double end = now() + seconds; now() < end; launches++) {
        static_kernel<<<128, 256>>>(out);
        if (cudaDeviceSynchronize() != cudaSuccess) return 4;
        struct timespec pause = {0, 300000};
        nanosleep(&pause, nullptr);
    }
    printf("{\"launches\": %ld}\n", launches);
    return 0;
}
