//! Codes that driver calls return.

/// A code, zero for success.
pub type Status = u32;

/// The outcome of a call before it becomes a code.
pub type Done = Result<(), Status>;

macro_rules! codes {
    ($($name:ident = $code:literal, $cuda:literal, $sentence:literal;)*) => {
        $(
            #[allow(dead_code, reason = "some are only asked for by tests, which have them returned")]
            pub const $name: Status = $code;
        )*

        /// Name and sentence of a code, each ending in a zero byte.
        pub fn texts(code: Status) -> Option<(&'static str, &'static str)> {
            match code {
                $($code => Some((concat!("CUDA_", $cuda, "\0"), concat!($sentence, "\0"))),)*
                _ => None,
            }
        }
    };
}

codes! {
    SUCCESS = 0, "SUCCESS", "no error";
    INVALID_VALUE = 1, "ERROR_INVALID_VALUE", "invalid argument";
    OUT_OF_MEMORY = 2, "ERROR_OUT_OF_MEMORY", "out of memory";
    NOT_INITIALIZED = 3, "ERROR_NOT_INITIALIZED", "initialization error";
    DEINITIALIZED = 4, "ERROR_DEINITIALIZED", "driver shutting down";
    STUB_LIBRARY = 34, "ERROR_STUB_LIBRARY", "CUDA driver is a stub library";
    DEVICE_UNAVAILABLE = 46, "ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable";
    NO_DEVICE = 100, "ERROR_NO_DEVICE", "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "ERROR_INVALID_DEVICE", "invalid device ordinal";
    INVALID_IMAGE = 200, "ERROR_INVALID_IMAGE", "device kernel image is invalid";
    INVALID_CONTEXT = 201, "ERROR_INVALID_CONTEXT", "invalid device context";
    NO_BINARY_FOR_GPU = 209, "ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device";
    ECC_UNCORRECTABLE = 214, "ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered";
    NVLINK_UNCORRECTABLE = 220, "ERROR_NVLINK_UNCORRECTABLE", "uncorrectable NVLink error detected during the execution";
    CONTAINED = 226, "ERROR_CONTAINED", "Invalid memory access or unsupported operation";
    INVALID_PTX = 218, "ERROR_INVALID_PTX", "a PTX JIT compilation failed";
    UNSUPPORTED_PTX_VERSION = 222, "ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain.";
    OPERATING_SYSTEM = 304, "ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400, "ERROR_INVALID_HANDLE", "invalid resource handle";
    ILLEGAL_STATE = 401, "ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state";
    NOT_FOUND = 500, "ERROR_NOT_FOUND", "named symbol not found";
    NOT_READY = 600, "ERROR_NOT_READY", "device not ready";
    ILLEGAL_ADDRESS = 700, "ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, "ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated";
    CONTEXT_IS_DESTROYED = 709, "ERROR_CONTEXT_IS_DESTROYED", "context is destroyed";
    ASSERT = 710, "ERROR_ASSERT", "device-side assert triggered";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713, "ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region";
    HARDWARE_STACK_ERROR = 714, "ERROR_HARDWARE_STACK_ERROR", "hardware stack error";
    ILLEGAL_INSTRUCTION = 715, "ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716, "ERROR_MISALIGNED_ADDRESS", "misaligned address";
    INVALID_ADDRESS_SPACE = 717, "ERROR_INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space";
    INVALID_PC = 718, "ERROR_INVALID_PC", "invalid program counter";
    LAUNCH_FAILED = 719, "ERROR_LAUNCH_FAILED", "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch";
    NOT_SUPPORTED = 801, "ERROR_NOT_SUPPORTED", "operation not supported";
    SYSTEM_NOT_READY = 802, "ERROR_SYSTEM_NOT_READY", "system not yet initialized";
    SYSTEM_DRIVER_MISMATCH = 803, "ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination";
    COMPAT_NOT_SUPPORTED_ON_DEVICE = 804, "ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW";
    STREAM_CAPTURE_UNSUPPORTED = 900, "ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, "ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture";
    STREAM_CAPTURE_UNMATCHED = 903, "ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not initiated in this stream";
    GRAPH_EXEC_UPDATE_FAILURE = 910, "ERROR_GRAPH_EXEC_UPDATE_FAILURE", "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    EXTERNAL_DEVICE = 911, "ERROR_EXTERNAL_DEVICE", "an async error has occurred in external entity outside of CUDA.";
    UNKNOWN = 999, "ERROR_UNKNOWN", "unknown error";
}

/// True for codes that a context returns from every call once it has met them.
pub fn is_sticky(code: Status) -> bool {
    matches!(
        code,
        ECC_UNCORRECTABLE | ILLEGAL_ADDRESS | LAUNCH_TIMEOUT | ASSERT | HARDWARE_STACK_ERROR..=LAUNCH_FAILED
    )
}
