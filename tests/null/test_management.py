"""NVML, as PyTorch and pynvml ask it: all installed devices, whatever the program sees."""

PRELUDE = """
import ctypes
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
nvml = ctypes.CDLL("libnvidia-ml.so.1")
def handle(call, key):
    p = c_void_p()
    code = call(key, byref(p))
    return p if code == 0 else f"error {code}"
by_index, by_bus = nvml.nvmlDeviceGetHandleByIndex_v2, nvml.nvmlDeviceGetHandleByPciBusId_v2
"""


def test_devices_are_found_by_index_and_by_bus(under):
    script = """
count = c_uint()
start = [nvml.nvmlInit(), nvml.nvmlInit_v2(), nvml.nvmlDeviceGetCount_v2(byref(count)), count.value]
devices = [handle(by_index, i) for i in range(2)]
missing = [handle(by_index, i) for i in (2, -1)]
same = [handle(by_bus, f"0000:0{i + 1}:00.0".encode()).value == d.value
        for i, d in enumerate(devices)]
missing += [handle(by_bus, text) for text in (b"0000:03:00.0", b"0000:00:00.0", b"no bus")]
def text(call, device, size=96):
    buffer = ctypes.create_string_buffer(b"kept", 96)
    code = call(device, buffer, size)
    return buffer.value.decode() if code == 0 else f"error {code}"
names = [text(nvml.nvmlDeviceGetName, *of) for of in (
    (devices[1],), (devices[1], 39), (devices[1], 38), (None,), (c_void_p(3),))]
ids = [text(nvml.nvmlDeviceGetUUID, *of) for of in (
    (devices[1],), (devices[1], 41), (devices[1], 40), (None,))]
version, number = ctypes.create_string_buffer(9), c_int()
versions = [nvml.nvmlSystemGetDriverVersion(version, 9), version.value.decode()]
versions += [nvml.nvmlSystemGetDriverVersion(version, 3), number.value]
nvml.nvmlSystemGetCudaDriverVersion_v2(byref(number))
cuda = c_int()
ctypes.CDLL(None).cudaDriverGetVersion(byref(cuda))
running = c_uint(9)
none = [call(d, byref(running), None) for d in (devices[0], None) for call in (
    nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetComputeRunningProcesses_v3)]
links = [nvml.nvmlDeviceGetNvLinkRemoteDeviceType(devices[0], 0, byref(c_int()))]
links += [nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2(devices[0], 0, None)]
fabric = ctypes.create_string_buffer(64)
links += [nvml.nvmlDeviceGetGpuFabricInfoV(devices[0], fabric), fabric.raw == bytes(64)]
nvml.nvmlErrorString.restype = c_char_p
texts = [nvml.nvmlErrorString(code).decode() for code in (0, 2, 3, 6, 7, 99)]
answer(start, same, missing, names, ids, versions, number.value == cuda.value, none,
       running.value, links, texts, nvml.nvmlShutdown())
"""
    name, invalid = "NVIDIA A100-80GB (attnmem null device)", "error 2"
    uuid = "GPU-00000000-0000-0000-0000-000000000002"
    assert under(PRELUDE + script, devices=2) == (
        [0, 0, 0, 2],
        [True, True],
        [invalid, invalid, "error 6", "error 6", invalid],
        [name, name, "error 7", invalid, invalid],
        [uuid, uuid, "error 7", invalid],
        *([0, "0.0", 7, 0], True),
        *([0, 0, 2, 2], 0),
        [3, 3, 0, True],
        [
            *("Success", "Invalid Argument", "Not Supported", "Not Found"),
            *("Insufficient Size", "Unknown Error"),
        ],
        0,
    )


def test_the_memory_of_a_device_is_found_whatever_number_the_program_has_for_it(under):
    script = """
cuda = ctypes.CDLL(None)
cuda.cudaSetDevice(1)
cuda.cudaMalloc(byref(c_void_p()), c_size_t(6 * MIB))
def memory(device):
    info = (c_ulonglong * 3)()
    code = nvml.nvmlDeviceGetMemoryInfo(device, info)
    total, free, used = info
    return [used // MIB, total - free == used] if code == 0 else f"error {code}"
answer([memory(handle(by_index, i)) for i in range(4)], memory(None), memory(c_void_p(5)))
"""
    found = under(PRELUDE + script, devices=4, CUDA_VISIBLE_DEVICES="3,2")
    assert found == ([[0, True], [0, True], [6, True], [0, True]], "error 2", "error 2")


def test_the_runtime_and_nvml_have_the_same_identity_of_a_device(under):
    """Programs look for the device that they use by its place on the bus, or by its UUID."""
    script = """
import torch
def uuid(device):
    text = ctypes.create_string_buffer(96)
    assert nvml.nvmlDeviceGetUUID(device, text, 96) == 0
    return text.value.decode()
def of(ordinal):
    bus = ctypes.create_string_buffer(16)
    assert torch._C._cuda_getDeviceCount() == 2
    assert ctypes.CDLL(None).cudaDeviceGetPCIBusId(bus, 16, ordinal) == 0
    p = torch.cuda.get_device_properties(ordinal)
    device = handle(by_bus, bus.value)
    same = uuid(device) == f"GPU-{p.uuid}", p.pci_bus_id == device.value
    return device.value - 1, all(same)
answer(of(0), of(1))
"""
    assert under(PRELUDE + script, devices=4, CUDA_VISIBLE_DEVICES="3,1") == ([3, True], [1, True])
