# Makes the target graft::split out of graft::graft and two source files. Read by the build of graft and by its installed package
# alike: the files are compiled with the options of the project that uses it, so that exceptions, sanitizers and GRAFT_OPS agree.
#   GRAFT_OPS      operators to compile in; empty or not set: all
#   GRAFT_LIBJPEG  decode JPEG by libjpeg-turbo where it is found
#   GRAFT_LIBWEBP  decode WebP by libwebp where it is found
if(TARGET graft_split)
  return()
endif()

add_library(graft_split STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/graft_split.cpp ${CMAKE_CURRENT_LIST_DIR}/graft_kernels.cpp)
add_library(graft::split ALIAS graft_split)
target_link_libraries(graft_split PUBLIC graft::graft)
target_compile_definitions(graft_split PUBLIC GRAFT_SPLIT PRIVATE GRAFT_KERNELS_APART)
set_target_properties(graft_split PROPERTIES POSITION_INDEPENDENT_CODE ON)
# Without optimisation, one file with all definitions has more sections than Windows' object files have by default.
if(MSVC)
  target_compile_options(graft_split PRIVATE /bigobj)
elseif(MINGW)
  target_compile_options(graft_split PRIVATE -Wa,-mbig-obj)
endif()
if(GRAFT_OPS)
  target_compile_definitions(graft_split PUBLIC "GRAFT_OPS=\"${GRAFT_OPS}\"")
endif()

if(GRAFT_LIBJPEG)
  find_package(JPEG QUIET)
  if(JPEG_FOUND)
    target_link_libraries(graft_split PRIVATE JPEG::JPEG)
    target_compile_definitions(graft_split PUBLIC GRAFT_HAS_LIBJPEG=1)
  endif()
endif()

if(GRAFT_LIBWEBP)
  find_path(GRAFT_WEBP_INCLUDE_DIR NAMES webp/decode.h DOC "The folder that webp/decode.h lies in")
  find_library(GRAFT_WEBP_LIBRARY NAMES webp DOC "libwebp")
  mark_as_advanced(GRAFT_WEBP_INCLUDE_DIR GRAFT_WEBP_LIBRARY)
  if(GRAFT_WEBP_INCLUDE_DIR AND GRAFT_WEBP_LIBRARY)
    add_library(graft_webp INTERFACE)
    target_link_libraries(graft_webp INTERFACE $<BUILD_INTERFACE:${GRAFT_WEBP_LIBRARY}> $<INSTALL_INTERFACE:webp>)
    list(FIND CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES "${GRAFT_WEBP_INCLUDE_DIR}" graft_webp_known)
    if(graft_webp_known EQUAL -1)
      target_include_directories(graft_webp SYSTEM INTERFACE $<BUILD_INTERFACE:${GRAFT_WEBP_INCLUDE_DIR}>)
    endif()
    target_link_libraries(graft_split PRIVATE graft_webp)
    target_compile_definitions(graft_split PUBLIC GRAFT_HAS_LIBWEBP=1)
  endif()
endif()

# stb_image decodes JPEG where libjpeg does not; graft includes it from the system's folders, or from the one found here.
find_path(GRAFT_STB_INCLUDE_DIR NAMES stb_image.h stb/stb_image.h DOC "The folder of stb_image.h")
mark_as_advanced(GRAFT_STB_INCLUDE_DIR)
if(GRAFT_STB_INCLUDE_DIR)
  list(FIND CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES "${GRAFT_STB_INCLUDE_DIR}" graft_stb_known)
  if(graft_stb_known EQUAL -1)
    target_include_directories(graft_split SYSTEM PRIVATE ${GRAFT_STB_INCLUDE_DIR})
  endif()
elseif(NOT JPEG_FOUND)
  message(STATUS "graft: neither libjpeg nor stb_image was found, so JPEG files are refused (Debian: apt-get install libjpeg-dev libstb-dev)")
endif()
