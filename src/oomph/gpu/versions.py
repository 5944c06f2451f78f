"""Decodes the version numbers that NVIDIA writes as integers."""

from __future__ import annotations


def cuda_version(number: int) -> tuple[int, int]:
    """(12, 5) for 12050: cuDriverGetVersion, cudaRuntimeGetVersion."""
    return number // 1000, number % 1000 // 10


def cudnn_version(number: int) -> tuple[int, int, int]:
    """(9, 3, 0) for 90300, (8, 9, 7) for 8907: cudnnGetVersion; its formula changed with cuDNN 9."""
    if number >= 90000:
        return number // 10000, number // 100 % 100, number % 100
    return number // 1000, number // 100 % 10, number % 100
