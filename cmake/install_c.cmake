# libgraft with its header, its pkg-config file, and the target graft::c, apart from the package of the headers: it is of one kind of machine. Component c is
# what programs run with, c_development what they are built with.
install(TARGETS graft_c EXPORT graftCTargets
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT c
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT c NAMELINK_COMPONENT c_development
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT c_development)
install(FILES ${PROJECT_SOURCE_DIR}/bindings/c/graft.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT c_development)
install(EXPORT graftCTargets NAMESPACE graft:: DESTINATION ${graft_machine_dir} COMPONENT c_development)
file(WRITE ${PROJECT_BINARY_DIR}/graft-c.cmake
     "# The component c of find_package(graft): graft::c, the shared library for C. Read by graftConfig.cmake.\ninclude(\${CMAKE_CURRENT_LIST_DIR}/graftCTargets.cmake)\n")
install(FILES ${PROJECT_BINARY_DIR}/graft-c.cmake DESTINATION ${graft_machine_dir} COMPONENT c_development)

graft_way_up(${CMAKE_INSTALL_LIBDIR}/pkgconfig graft_c_pc_prefix)
configure_file(bindings/c/graft-c.pc.in ${PROJECT_BINARY_DIR}/graft-c.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/graft-c.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT c_development)
