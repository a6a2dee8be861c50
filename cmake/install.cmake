# Headers, the CMake package and the pkg-config file. Nothing of it depends on the machine, so one package serves every architecture.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(graft_package_dir ${CMAKE_INSTALL_DATADIR}/cmake/graft)

install(DIRECTORY include/graft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS graft EXPORT graftTargets)
install(EXPORT graftTargets NAMESPACE graft:: DESTINATION ${graft_package_dir})

configure_package_config_file(cmake/graftConfig.cmake.in ${PROJECT_BINARY_DIR}/graftConfig.cmake INSTALL_DESTINATION ${graft_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/graftConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/graftConfig.cmake ${PROJECT_BINARY_DIR}/graftConfigVersion.cmake cmake/graftSplit.cmake cmake/graft_split.cpp
        cmake/graft_kernels.cpp
        DESTINATION ${graft_package_dir})
if(EXISTS ${PROJECT_SOURCE_DIR}/LICENSE)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()

# Relocatable: the prefix is reckoned from where the file lies.
set(graft_pc_dir ${CMAKE_INSTALL_DATADIR}/pkgconfig)
file(RELATIVE_PATH graft_pc_prefix ${CMAKE_INSTALL_PREFIX}/${graft_pc_dir} ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" graft_pc_prefix "${graft_pc_prefix}")
set(graft_pc_libs "-pthread")
if(CMAKE_DL_LIBS)
  set(graft_pc_libs "${graft_pc_libs} -l${CMAKE_DL_LIBS}")
endif()
configure_file(cmake/graft.pc.in ${PROJECT_BINARY_DIR}/graft.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/graft.pc DESTINATION ${graft_pc_dir})

if(TARGET graft_program)
  install(TARGETS graft_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
