/* Stands in for NVIDIA's driver, with a clock of its own: launches take the longer of kernel_us and launch_us, a graph's launches kernel_us. */
#include <stdlib.h>

double now_us, kernel_us = 3, launch_us = 4, replay_us = 2;
int refuses, open_handles, launches, is_capturing;

typedef struct { double us; int launches; } *handle;

static handle made(int launches) {
    handle one = malloc(sizeof *one);
    one->us = 0, one->launches = launches;
    open_handles++;
    return one;
}

static int destroyed(handle one) {
    free(one);
    open_handles--;
    return 0;
}

static int captured;

void launch(void) {
    launches++;
    if (is_capturing) captured++;
    else now_us += kernel_us > launch_us ? kernel_us : launch_us;
}

int cuStreamCreate(handle *stream, unsigned flags) { *stream = made(0); return flags != 1; }
int cuStreamDestroy_v2(handle stream) { return destroyed(stream); }
int cuEventCreate(handle *event, unsigned flags) { *event = made(0); return flags != 0; }
int cuEventDestroy_v2(handle event) { return destroyed(event); }
int cuEventRecord(handle event, handle stream) { event->us = now_us; return !stream; }
int cuEventSynchronize(handle event) { return !event; }
int cuEventElapsedTime(float *ms, handle start, handle end) { *ms = (end->us - start->us) / 1000; return 0; }
int cuStreamBeginCapture_v2(handle stream, int mode) { is_capturing = 1, captured = 0; return !stream || mode != 2; }
int cuStreamEndCapture(handle stream, handle *graph) {
    is_capturing = 0;
    *graph = refuses ? 0 : made(captured);
    return refuses ? 901 : !stream;
}
int cuGraphInstantiateWithFlags(handle *made_, handle graph, unsigned long long flags) {
    *made_ = made(graph->launches);
    return flags != 0;
}
int cuGraphDestroy(handle graph) { return destroyed(graph); }
int cuGraphExecDestroy(handle graph) { return destroyed(graph); }
int cuGraphLaunch(handle graph, handle stream) { now_us += replay_us + graph->launches * kernel_us; return !stream; }
int cuGetErrorName(int status, const char **name) { *name = status == 901 ? "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" : "?"; return 0; }
