# graft as an overlay port of the tree that it lies in: vcpkg install graft --overlay-ports=packaging/vcpkg/ports
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../../.." ABSOLUTE)
set(VCPKG_BUILD_TYPE release)  # headers are the same for all

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -DGRAFT_INSTALL=ON
    -DGRAFT_BUILD_C=OFF
    -DGRAFT_BUILD_PROGRAM=OFF
    -DGRAFT_BUILD_TESTS=OFF
    -DGRAFT_BUILD_EXAMPLES=OFF
    -DGRAFT_BUILD_BENCHMARKS=OFF
    -DCMAKE_DISABLE_FIND_PACKAGE_JPEG=ON
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/graft)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/lib" "${CURRENT_PACKAGES_DIR}/share/doc")
file(INSTALL "${CURRENT_PORT_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
