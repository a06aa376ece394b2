"""What pyproject.toml cannot say: one part is compiled, and may fail to be."""

import os

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "coembed._native",
            ["src/coembed/_native.c"],
            # the same digits on all processors: a product and a sum stay two roundings
            extra_compile_args=[] if os.name == "nt" else ["-O3", "-ffp-contract=off"],
            py_limited_api=True,
            optional=True,
        )
    ]
)
