// A libcuda.so.1 without a device, for NVIDIA's own cuDNN where a device is only described to it: its engines that compile their kernels
// want a driver that takes them, and call nothing else of it. What is taken cannot be run.
#define GRAFT_EXPORTED extern "C" __attribute__((visibility("default")))

namespace {
constexpr int stub_library = 34;  // what the driver in NVIDIA's toolkit answers
int anything = 0;
int hand_out(void** made) {
    *made = &anything;
    return 0;
}
}  // namespace

#define GRAFT_TAKEN(name) \
    GRAFT_EXPORTED int name(void** made); \
    GRAFT_EXPORTED int name(void** made) { return hand_out(made); }
GRAFT_TAKEN(cuLibraryLoadData)
GRAFT_TAKEN(cuLibraryGetKernel)

// Without their names cuDNN takes the driver for none at all.
#define GRAFT_REFUSED(name) \
    GRAFT_EXPORTED int name(); \
    GRAFT_EXPORTED int name() { return stub_library; }
GRAFT_REFUSED(cuInit)
GRAFT_REFUSED(cuCtxGetCurrent)
GRAFT_REFUSED(cuCtxGetDevice)
GRAFT_REFUSED(cuCtxGetLimit)
GRAFT_REFUSED(cuCtxPopCurrent)
GRAFT_REFUSED(cuCtxPushCurrent)
GRAFT_REFUSED(cuDeviceGet)
GRAFT_REFUSED(cuDeviceGetAttribute)
GRAFT_REFUSED(cuDeviceGetCount)
GRAFT_REFUSED(cuDevicePrimaryCtxRelease)
GRAFT_REFUSED(cuDevicePrimaryCtxReset)
GRAFT_REFUSED(cuDevicePrimaryCtxRetain)
GRAFT_REFUSED(cuDriverGetVersion)
GRAFT_REFUSED(cuFuncGetAttribute)
GRAFT_REFUSED(cuFuncSetAttribute)
GRAFT_REFUSED(cuGetErrorName)
GRAFT_REFUSED(cuGetErrorString)
GRAFT_REFUSED(cuKernelGetAttribute)
GRAFT_REFUSED(cuKernelSetAttribute)
GRAFT_REFUSED(cuLaunchCooperativeKernel)
GRAFT_REFUSED(cuLaunchKernel)
GRAFT_REFUSED(cuLaunchKernelEx)
GRAFT_REFUSED(cuLibraryLoadFromFile)
GRAFT_REFUSED(cuLibraryUnload)
GRAFT_REFUSED(cuLinkAddData)
GRAFT_REFUSED(cuLinkAddData_v2)
GRAFT_REFUSED(cuLinkAddFile_v2)
GRAFT_REFUSED(cuLinkComplete)
GRAFT_REFUSED(cuLinkCreate)
GRAFT_REFUSED(cuLinkCreate_v2)
GRAFT_REFUSED(cuLinkDestroy)
GRAFT_REFUSED(cuMemcpyDtoH_v2)
GRAFT_REFUSED(cuModuleGetFunction)
GRAFT_REFUSED(cuModuleGetGlobal_v2)
GRAFT_REFUSED(cuModuleLoadData)
GRAFT_REFUSED(cuModuleLoadDataEx)
GRAFT_REFUSED(cuModuleLoadFatBinary)
GRAFT_REFUSED(cuModuleUnload)
GRAFT_REFUSED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
GRAFT_REFUSED(cuOccupancyMaxPotentialClusterSize)
GRAFT_REFUSED(cuStreamGetCtx)
GRAFT_REFUSED(cuStreamSynchronize)
GRAFT_REFUSED(cuTensorMapEncodeTiled)
