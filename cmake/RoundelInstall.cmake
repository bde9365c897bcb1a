# libroundel: every module in one archive, and what `cmake --install` puts where: the program, the archive, the public
# headers, and the package that find_package(roundel) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(ROUNDEL_MODULES GLOBAL PROPERTY ROUNDEL_MODULES)
list(TRANSFORM ROUNDEL_MODULES REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE ROUNDEL_OBJECTS)
add_library(libroundel STATIC ${ROUNDEL_OBJECTS})
set_target_properties(libroundel PROPERTIES OUTPUT_NAME roundel EXPORT_NAME roundel LINKER_LANGUAGE CXX
                                            ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
# Only the public headers: who uses the library, our own tests included, cannot include anything else.
target_include_directories(libroundel INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
                                                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(libroundel INTERFACE cxx_std_20)
target_link_libraries(libroundel PRIVATE fmt::fmt spdlog::spdlog yaml-cpp Threads::Threads PkgConfig::PCRE2
                                         PkgConfig::UTF8PROC)
if(ROUNDEL_CUDA)
  target_link_libraries(libroundel PRIVATE CUDA::cudart_static CUDA::cublasLt)
endif()

set(ROUNDEL_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/roundel)
install(TARGETS roundel RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS libroundel EXPORT roundelTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/roundel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT roundelTargets NAMESPACE roundel:: DESTINATION ${ROUNDEL_PACKAGE_DIR})
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/roundelConfig.cmake.in
                              ${CMAKE_BINARY_DIR}/roundelConfig.cmake INSTALL_DESTINATION ${ROUNDEL_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/roundelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/roundelConfig.cmake ${CMAKE_BINARY_DIR}/roundelConfigVersion.cmake
        DESTINATION ${ROUNDEL_PACKAGE_DIR})
