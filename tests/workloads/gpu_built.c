//! Graphs that are built by hand, or changed after they were made ready, on the runtime API: `gpu_built SECONDS [built|set|found|update|swap]`.
//! Each function that puts work into a graph does so under its own name as tag; replays are the tag `replay`.
//!
//! built: nodes of every kind that calls can add, a child graph and a copy of the whole, replayed; set: a node that a call added has another
//! kernel put in after half of the time; found: the same with a captured node, which the program asks its graph for; update: after half of the time all work
//! is replaced by that of another captured graph; swap: the same again and again between two graphs that launch the same kernels from different functions. Leaves out every result.
#define PROGRAM "gpu_built"
#include "gpu_loop.h"

// cudaKernelNodeParams and cudaMemsetParams of driver_types.h.
struct kernel_node { void *function; dim3 grid, block; unsigned shared; void **arguments, **extra; };
struct set_node { void *to; size_t pitch; unsigned value, element_bytes; size_t width, height; };
// CUgraphNodeParams of cuda.h, for a kernel.
struct any_node { int kind, reserved[3]; void *function; unsigned grid[3], block[3], shared; void **arguments, **extra; void *kernel, *context; char rest[168]; };
extern int cudaGraphCreate(void **, unsigned);
extern int cudaGraphAddKernelNode(void **, void *, void *, size_t, const struct kernel_node *);
extern int cudaGraphAddMemcpyNode1D(void **, void *, void *, size_t, void *, const void *, size_t, int);
extern int cudaGraphAddMemsetNode(void **, void *, void *, size_t, const struct set_node *);
extern int cudaGraphAddChildGraphNode(void **, void *, void *, size_t, void *);
extern int cudaGraphClone(void **, void *);
extern int cudaGraphGetNodes(void *, void **, size_t *);
extern int cudaGraphExecKernelNodeSetParams(void *, void *, const struct kernel_node *);
extern int cudaGraphExecUpdate(void *, void *, void *);
extern int cuGraphAddNode_v2(void **, void *, void *, void *, size_t, struct any_node *);
extern int cuModuleLoadData(void **, const void *);
extern int cuModuleGetFunction(void **, void *, const char *);

static struct kernel_node node_of(void (*kernel)(void), unsigned blocks) {
    struct kernel_node node = {.function = (void *)kernel, .grid = {blocks, 1, 1}, .block = {256, 1, 1}};
    return node;
}

static void *add(void *graph, void (*kernel)(void), unsigned blocks) {
    void *node;
    struct kernel_node what = node_of(kernel, blocks);
    check(cudaGraphAddKernelNode(&node, graph, 0, 0, &what), "cudaGraphAddKernelNode");
    return node;
}

STUB void *dense(void *graph) {
    tag("dense");
    return add(graph, gemm, 64);
}

STUB void *linear(void *graph) {
    tag("linear");
    return add(graph, gemm, 128);
}

STUB void *activate(void *graph) {
    tag("activate");
    return add(graph, relu, 64);
}

STUB void upload(void *graph) {
    void *node;
    tag("upload");
    check(cudaGraphAddMemcpyNode1D(&node, graph, 0, 0, device_memory, host_memory, sizeof host_memory, 1), "cudaGraphAddMemcpyNode1D");
}

STUB void clear(void *graph) {
    void *node;
    struct set_node what = {.to = device_memory, .element_bytes = 4, .width = sizeof host_memory / 4, .height = 1};
    tag("clear");
    check(cudaGraphAddMemsetNode(&node, graph, 0, 0, &what), "cudaGraphAddMemsetNode");
}

// By the driver's own call, whose argument is of any kind.
STUB void wide(void *graph, void *function) {
    void *node;
    struct any_node what = {.function = function, .grid = {640, 1, 1}, .block = {256, 1, 1}};
    tag("wide");
    check(cuGraphAddNode_v2(&node, graph, 0, 0, 0, &what), "cuGraphAddNode_v2");
}

STUB void backprop(void *stream) {
    tag("backprop");
    launch_blocks(gemm_grad, 64, stream);
    launch_blocks(relu, 640, stream);
}

STUB void forward(void *stream) {
    tag("forward");
    launch_blocks(gemm, 64, stream);
    launch_blocks(relu, 64, stream);
}

STUB void backward(void *stream) {
    tag("backward");
    launch_blocks(gemm, 128, stream);
    launch_blocks(relu, 320, stream);
}

// Another kernel for an old node.
STUB void update(void *executable, void *node) {
    struct kernel_node what = node_of(adam, 64);
    tag("update");
    check(cudaGraphExecKernelNodeSetParams(executable, node, &what), "cudaGraphExecKernelNodeSetParams");
}

STUB void *create(void) {
    void *graph;
    check(cudaGraphCreate(&graph, 0), "cudaGraphCreate");
    return graph;
}

STUB void *ready(void *graph) {
    void *executable;
    check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    return executable;
}

STUB void *captured(void (*what)(void *), void *stream) {
    void *graph;
    check(cudaStreamBeginCapture(stream, 0), "cudaStreamBeginCapture");
    what(stream);
    check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    return graph;
}

STUB void replay(void *executable, void *stream, double seconds) {
    tag("replay");
    for (double end = now() + seconds; now() < end;) {
        check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
        check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    }
}

STUB void built(double seconds, void *stream) {
    void *module, *function, *node, *copy, *graph = create(), *inner = create();
    check(cuModuleLoadData(&module, "none"), "cuModuleLoadData");
    check(cuModuleGetFunction(&function, module, "relu"), "cuModuleGetFunction");
    upload(graph);
    clear(graph);
    dense(graph);
    wide(graph, function);
    activate(inner);
    check(cudaGraphAddChildGraphNode(&node, graph, 0, 0, inner), "cudaGraphAddChildGraphNode");
    check(cudaGraphClone(&copy, graph), "cudaGraphClone");
    replay(ready(copy), stream, seconds);
}

STUB void set(double seconds, void *stream) {
    void *graph = create(), *node = dense(graph);
    linear(graph);
    activate(graph);
    void *executable = ready(graph);
    replay(executable, stream, seconds / 2);
    update(executable, node);
    replay(executable, stream, seconds / 2);
}

STUB void found(double seconds, void *stream) {
    void *nodes[2], *graph = captured(forward, stream), *executable = ready(graph);
    size_t count = 2;
    check(cudaGraphGetNodes(graph, nodes, &count), "cudaGraphGetNodes");
    replay(executable, stream, seconds / 2);
    update(executable, nodes[0]);
    replay(executable, stream, seconds / 2);
}

STUB void updated(double seconds, void *stream) {
    char result[24];
    void *executable = ready(captured(forward, stream)), *other = captured(backprop, stream);
    replay(executable, stream, seconds / 2);
    check(cudaGraphExecUpdate(executable, other, result), "cudaGraphExecUpdate");
    replay(executable, stream, seconds / 2);
}

STUB void swap(double seconds, void *stream) {
    char result[24];
    void *graphs[2] = {captured(forward, stream), captured(backward, stream)}, *executable = ready(graphs[0]);
    double end = now() + seconds;
    for (int i = 0; now() < end; i++) {
        check(cudaGraphExecUpdate(executable, graphs[i % 2], result), "cudaGraphExecUpdate");
        // Without a wait: the work of many launches is still to come when the next update is made.
        for (int j = 0; j < 4; j++) check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
        if (i % 8 == 7) check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    }
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1.0;
    const char *mode = argc > 2 ? argv[2] : "built";
    void *stream = set_up();
    if (!strcmp(mode, "built")) built(seconds, stream);
    else if (!strcmp(mode, "set")) set(seconds, stream);
    else if (!strcmp(mode, "found")) found(seconds, stream);
    else if (!strcmp(mode, "update")) updated(seconds, stream);
    else if (!strcmp(mode, "swap")) swap(seconds, stream);
    else return 2;
    return 0;
}
