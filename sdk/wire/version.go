package wire

// Version is the version of svcfs: of both programs, of what svcd says of itself, and of the packages.
const Version = "0.1.0"
