# What is installed, by components:
#   headers  headers, the CMake package and the pkg-config file; nothing of it depends on the machine
#   library  graft::library, the definitions compiled (GRAFT_INSTALL_LIBRARY)
#   program  the program, its manual pages and completions (apps/graft/CMakeLists.txt)
#   c        libgraft, the shared library for C (bindings/c); c_development: its header and what finds it
#   docs     the documentation
# What depends on the machine (library, c) tells CMake of itself in graft-COMPONENT.cmake, in ${graft_machine_dir}, where
# graftConfig.cmake looks for it; its package is a line of graft_package in packages.cmake.
include(CMakePackageConfigHelpers)
set(graft_package_dir ${CMAKE_INSTALL_DATADIR}/cmake/graft)
set(graft_machine_dir ${CMAKE_INSTALL_LIBDIR}/cmake/graft)
set(graft_pc_dir ${CMAKE_INSTALL_DATADIR}/pkgconfig)

# The way from a folder of the installation up to its root, so that a file in it works wherever the whole is moved to.
function(graft_way_up folder variable)
  file(RELATIVE_PATH way ${CMAKE_INSTALL_PREFIX}/${folder} ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" way "${way}")
  set(${variable} "${way}" PARENT_SCOPE)
endfunction()
graft_way_up(${graft_pc_dir} graft_pc_prefix)
set(graft_pc_libs "-pthread")
if(CMAKE_DL_LIBS)
  set(graft_pc_libs "${graft_pc_libs} -l${CMAKE_DL_LIBS}")
endif()

# ---- headers
install(DIRECTORY include/graft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT headers)
install(TARGETS graft EXPORT graftTargets)
install(EXPORT graftTargets NAMESPACE graft:: DESTINATION ${graft_package_dir} COMPONENT headers)
configure_package_config_file(cmake/graftConfig.cmake.in ${PROJECT_BINARY_DIR}/graftConfig.cmake INSTALL_DESTINATION ${graft_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/graftConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/graftConfig.cmake ${PROJECT_BINARY_DIR}/graftConfigVersion.cmake cmake/graftSplit.cmake cmake/graft_split.cpp
        cmake/graft_kernels.cpp
        DESTINATION ${graft_package_dir} COMPONENT headers)
configure_file(cmake/graft.pc.in ${PROJECT_BINARY_DIR}/graft.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/graft.pc DESTINATION ${graft_pc_dir} COMPONENT headers)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT headers)

# ---- library
if(GRAFT_INSTALL_LIBRARY)
  set_target_properties(graft_split PROPERTIES EXCLUDE_FROM_ALL OFF EXPORT_NAME library)
  set(graft_library_targets graft_split)
  if(TARGET graft_webp)
    list(APPEND graft_library_targets graft_webp)
  endif()
  install(TARGETS ${graft_library_targets} EXPORT graftLibraryTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
  install(EXPORT graftLibraryTargets NAMESPACE graft:: DESTINATION ${graft_machine_dir} COMPONENT library)
  set(graft_library_dependencies "")
  get_target_property(graft_library_definitions graft_split INTERFACE_COMPILE_DEFINITIONS)
  string(REGEX REPLACE "([^;]+);?" " -D\\1" graft_library_cflags "${graft_library_definitions}")
  set(graft_library_libs "-L\${libdir} -lgraft_split")
  if(GRAFT_LIBJPEG AND JPEG_FOUND)
    set(graft_library_dependencies "find_dependency(JPEG)\n")
    string(APPEND graft_library_libs " -ljpeg")
  endif()
  if(TARGET graft_webp)
    string(APPEND graft_library_libs " -lwebp")
  endif()
  configure_file(cmake/graft-library.cmake.in ${PROJECT_BINARY_DIR}/graft-library.cmake @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/graft-library.cmake DESTINATION ${graft_machine_dir} COMPONENT library)
  graft_way_up(${CMAKE_INSTALL_LIBDIR}/pkgconfig graft_pc_prefix)
  configure_file(cmake/graft-split.pc.in ${PROJECT_BINARY_DIR}/graft-split.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/graft-split.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
endif()

# ---- c, c_development
if(TARGET graft_c)
  include(cmake/install_c.cmake)
endif()

# ---- docs
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT docs)
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT docs PATTERN cluster EXCLUDE)

if(graft_top_level)
  include(cmake/packages.cmake)
endif()
