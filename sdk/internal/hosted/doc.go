// Package hosted is how a file of format 1 travels to and from the hosted service: sealed in the memory of its content
// ([Blob]), as base64 in JSON ([Body], [ScanAnswer]), and with an outcome that may stay unknown ([State]). A service of
// ours takes the same requests, for what is no sealed upload and for the JavaScript SDKs, and offers the bytes raw
// beside them ([Sink.Read]).
package hosted
