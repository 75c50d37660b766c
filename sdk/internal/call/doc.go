// Package call sends the requests of a client, and reads their answers: session token, pace, patience, retry,
// traffic, compression, and what an error says of the connection. It knows no operation but signing in.
//
//	Caller.Do        one call: repeated as its Kind says            repeat.go
//	  token.go       the session token, and the API key behind it
//	  exchange.go    one request and its answer                     body.go: the memory that a body is read from
//	    pace.go      ends what stalls                               traffic.go: what moved, and how far the service is
//	    limit.go     slows content down to a limit
//	  outage.go      for how long connections have failed
//	errors.go        what an error says of the connection
//	scrub.go         takes credentials out of texts of the service
//
// What a refusal means is not known here: [Config].ReadError reads it.
package call
