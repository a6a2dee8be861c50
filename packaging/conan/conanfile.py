"""graft for Conan 2: the headers, or, with the option split, their definitions compiled once. conan create packaging/conan"""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

required_conan_version = ">=2.0"


class Graft(ConanFile):
    name = "graft"
    description = "Runs and fine-tunes ONNX image models, embedded and header-only"
    license = "MIT"
    topics = ("onnx", "inference", "training", "deep-learning", "header-only")
    settings = "os", "arch", "compiler", "build_type"
    options = {"split": [True, False], "fPIC": [True, False]}
    default_options = {"split": False, "fPIC": True}

    @property
    def root(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self.root, "include", "graft", "version.hpp"))
        self.version = ".".join(re.search(rf"GRAFT_VERSION_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH"))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "README.md", "CHANGELOG.md", "cmake/*", "include/*"):
            copy(self, pattern, self.root, self.export_sources_folder)

    def config_options(self):
        if self.settings.os == "Windows":
            del self.options.fPIC

    def configure(self):
        self.package_type = "static-library" if self.options.split else "header-library"
        if not self.options.split:
            self.options.rm_safe("fPIC")

    def layout(self):
        cmake_layout(self)

    def package_id(self):
        if not self.info.options.split:
            self.info.clear()

    def validate(self):
        check_min_cppstd(self, 17)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["GRAFT_INSTALL"] = True
        toolchain.cache_variables["GRAFT_INSTALL_LIBRARY"] = bool(self.options.split)
        for part in ("C", "PROGRAM", "TESTS", "EXAMPLES", "BENCHMARKS"):
            toolchain.cache_variables[f"GRAFT_BUILD_{part}"] = False
        # What a package links has to come from packages.
        for library in ("LIBJPEG", "LIBWEBP"):
            toolchain.cache_variables[f"GRAFT_{library}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        cmake = CMake(self)
        cmake.install(component="headers")
        if self.options.split:
            cmake.install(component="library")
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        # Conan makes these for the generators that consumers ask for.
        for folder in ("share", os.path.join("lib", "cmake"), os.path.join("lib", "pkgconfig")):
            rmdir(self, os.path.join(self.package_folder, folder))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "graft")
        headers = self.cpp_info.components["headers"]
        headers.set_property("cmake_target_name", "graft::graft")
        headers.set_property("pkg_config_name", "graft")
        headers.bindirs = headers.libdirs = []
        if self.settings.os in ("Linux", "FreeBSD"):
            headers.system_libs = ["pthread", "dl"]
        if self.options.split:
            split = self.cpp_info.components["split"]
            split.set_property("cmake_target_name", "graft::split")
            split.set_property("pkg_config_name", "graft-split")
            split.requires = ["headers"]
            split.libs = ["graft_split"]
            split.defines = ["GRAFT_SPLIT"]
