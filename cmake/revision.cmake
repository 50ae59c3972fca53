# Writes the header that names the revision, when it has changed. Empty where there is no git, or no clone.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty=+changes --exclude=* --abbrev=12
  OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define PAWL_REVISION \"@revision@\"\n" @ONLY)
