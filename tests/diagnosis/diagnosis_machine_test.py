"""What the diagnosis reports about other machines."""

import os
import platform

import pytest

from keras_encdec.backend import devices
from keras_encdec.diagnosis import diagnosis
from keras_encdec.diagnosis.diagnosis import find_machine
from keras_encdec.runtime import control_groups


@pytest.fixture
def system(monkeypatch, tmp_path):
    """Replaces /proc and /sys/fs/cgroup; a function that writes a file there."""
    for module in (control_groups, diagnosis):
        monkeypatch.setattr(module, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(control_groups, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(devices, "_CPU_INFO", tmp_path / "proc" / "cpuinfo")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def write(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_the_processor_and_its_instructions(system):
    system("proc/cpuinfo", "model name\t: Processor 3000\nflags\t\t: fpu avx2 avx512f amx_bf16\n")
    rows = dict(find_machine().rows())
    assert rows["processor"] == "Processor 3000"
    assert rows["instructions"] == "AVX2, AVX512F, AMX-BF16; lacks AVX512_BF16, AVX512_VNNI, AVX-VNNI"


def test_an_arm_processor(system, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    system("proc/cpuinfo", "Features\t: fp asimd bf16 asimddp\n")
    assert dict(find_machine().rows())["instructions"] == "NEON, dot product, BF16; lacks FP16, SVE, I8MM"


def test_a_system_that_reports_nothing(system):
    found = find_machine("/no such folder")
    rows = dict(found.rows())
    assert rows["instructions"] == "not known on this system" and rows["GPUs"] == "no NVIDIA driver found"
    assert rows["disk"].startswith("unknown free of unknown") and found.memory_free is None


def test_the_limits_of_control_groups_around_the_process_count(system):
    system("proc/meminfo", "MemTotal:  8388608 kB\nMemAvailable: 4194304 kB\n")
    system("proc/self/cgroup", "0::/jobs/mine\n")
    system("cgroup/jobs/mine/cpu.max", "max 100000\n")
    system("cgroup/jobs/cpu.max", "150000 100000\n")
    system("cgroup/jobs/memory.max", f"{2 << 30}\n")
    rows = dict(find_machine().rows())
    assert rows["processors"].endswith("(control group: limit 1.5)")
    assert rows["memory"] == "4.0 GiB free of 8.0 GiB (control group: limit 2.0 GiB)"


def test_the_limits_of_control_groups_of_the_first_version(system):
    system("proc/meminfo", "MemTotal:  8388608 kB\n")
    system("cgroup/cpu/cpu.cfs_quota_us", "200000\n")
    system("cgroup/cpu/cpu.cfs_period_us", "100000\n")
    system("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    found = find_machine()
    assert (found.processor_limit, found.memory_limit) == (2.0, None)


def test_graphics_processors_that_the_driver_knows(system):
    program = system("bin/nvidia-smi", "#!/bin/sh\necho 'H100, 81559 MiB, 570.1'\necho 'H100, 81559 MiB, 570.1'\n")
    program.chmod(0o755)
    assert find_machine().graphics == ("H100, 81559 MiB, 570.1",) * 2
    program.write_text("#!/bin/sh\necho 'no devices were found'\nexit 6\n")
    assert find_machine().graphics == ()


def test_variables_that_set_the_number_of_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = find_machine()
    assert dict(found.rows())["OMP_NUM_THREADS"] == "3"
    assert 1 <= found.usable_processors <= found.processors == os.cpu_count()
