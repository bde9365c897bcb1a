# roundel_module(NAME DEPS ...): one static library roundel_NAME from every .cpp below the calling folder.
# Flags that all of roundel shares are set here and nowhere else.
set(ROUNDEL_FLAGS -Wall -Wextra -Wshadow -Wno-missing-field-initializers -Wnon-virtual-dtor -Woverloaded-virtual
    -Wextra-semi -Wcast-qual -Wundef -Wvla -Wformat=2 -Wno-format-nonliteral -fno-math-errno)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND ROUNDEL_FLAGS -Wduplicated-cond -Wlogical-op
       -Wno-restrict)  # GCC 12 sees overlaps in string concatenation that are not there (its bug 105651)
else()
  list(APPEND ROUNDEL_FLAGS -Wno-unknown-warning-option -Wno-string-conversion)
endif()
if(ROUNDEL_WERROR)  # -Wrestrict of GCC 12 is wrong about "text" + std::string
  list(APPEND ROUNDEL_FLAGS -Werror -Wno-error=restrict)
endif()
# The product's own code, tests left out; and besides, modules that read what a stranger wrote.
set(ROUNDEL_STRICT_FLAGS -Wconversion -Wno-sign-conversion -Wold-style-cast)
set(ROUNDEL_PARSERS base scheme checkpoint codec text quantize)
if(ROUNDEL_SANITIZE)
  list(APPEND ROUNDEL_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
       -D_GLIBCXX_ASSERTIONS)
  add_link_options(-fsanitize=address,undefined)
endif()
if(ROUNDEL_TSAN)
  list(APPEND ROUNDEL_FLAGS -fsanitize=thread)
  add_link_options(-fsanitize=thread)
endif()
if(ROUNDEL_FUZZ)
  list(APPEND ROUNDEL_FLAGS -fsanitize=fuzzer-no-link)
endif()

function(roundel_module NAME)
  cmake_parse_arguments(ARG "" "" "DEPS;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(pattern ${ARG_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX ${pattern})
  endforeach()
  if(NOT sources)  # headers only
    add_library(roundel_${NAME} INTERFACE)
    target_include_directories(roundel_${NAME} INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(roundel_${NAME} INTERFACE ${ARG_DEPS})
    return()
  endif()
  add_library(roundel_${NAME} STATIC ${sources})
  set_property(GLOBAL APPEND PROPERTY ROUNDEL_MODULES roundel_${NAME})
  target_include_directories(roundel_${NAME} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  target_compile_options(roundel_${NAME} PRIVATE ${ROUNDEL_FLAGS} ${ROUNDEL_STRICT_FLAGS})
  if(NAME IN_LIST ROUNDEL_PARSERS)
    target_compile_options(roundel_${NAME} PRIVATE -Wsign-conversion)
  endif()
  target_link_libraries(roundel_${NAME} PUBLIC ${ARG_DEPS})
endfunction()

# ROUNDEL_MODULES, a global property, lists the libraries that both functions made: libroundel is all of them.

# roundel_isa(NAME FLAGS ...): like roundel_module, for kernels/cpu/<isa>: the only place with -m flags.
function(roundel_isa NAME)
  cmake_parse_arguments(ARG "" "" "FLAGS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(NOT sources)
    add_library(roundel_kernels_${NAME} INTERFACE)
    return()
  endif()
  add_library(roundel_kernels_${NAME} STATIC ${sources})
  set_property(GLOBAL APPEND PROPERTY ROUNDEL_MODULES roundel_kernels_${NAME})
  target_include_directories(roundel_kernels_${NAME} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_compile_options(roundel_kernels_${NAME} PRIVATE ${ROUNDEL_FLAGS} ${ARG_FLAGS})
  if(ROUNDEL_SANITIZE)  # checks of each pointer that ASan makes anyway: with them clang needs minutes for one file
    target_compile_options(roundel_kernels_${NAME} PRIVATE -fno-sanitize=null,object-size,pointer-overflow)
  endif()
  if(ROUNDEL_FUZZ)
    target_compile_options(roundel_kernels_${NAME} PRIVATE -fno-sanitize=fuzzer-no-link)
  endif()
endfunction()

# roundel_cuda(NAME ARCHITECTURES ... SOURCES ...): the .cu files of one folder of kernels/cuda.
function(roundel_cuda NAME)
  cmake_parse_arguments(ARG "" "" "ARCHITECTURES;SOURCES" ${ARGN})
  add_library(roundel_kernels_cuda_${NAME} STATIC ${ARG_SOURCES})
  set_target_properties(roundel_kernels_cuda_${NAME} PROPERTIES CUDA_ARCHITECTURES "${ARG_ARCHITECTURES}")
  target_include_directories(roundel_kernels_cuda_${NAME} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  set_property(GLOBAL APPEND PROPERTY ROUNDEL_MODULES roundel_kernels_cuda_${NAME})
  target_compile_options(roundel_kernels_cuda_${NAME} PRIVATE -O3 --expt-relaxed-constexpr -Xcompiler=-Wall -Xcompiler=-Wno-unused-function)
endfunction()
