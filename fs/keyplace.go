package fs

import (
	"errors"
	"sync"
)

// ReadKey reads the API key from a place, which the program that mounts describes in words of its
// own. It is called in the process outside. The caller clears the key.
type ReadKey func(place []byte) (key []byte, err error)

// keeper reads the key of a mount for the process of the mount, which confines itself and opens no
// file of the user. It reads the first place that it is told of, before the mount is confined
// and has heard from the service, and no other.
type keeper struct {
	read ReadKey

	mu    sync.Mutex
	place []byte
}

// errKeyPlace refuses a key to a process that was taken over, or has none.
var errKeyPlace = errors.New("the place of the key was not told at the start")

func (k *keeper) answer(r outsideRequest) outsideAnswer {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.read == nil:
		return failure(errKeyPlace)
	case r.Do == askKeyPlace && k.place == nil:
		k.place = r.Place
		return outsideAnswer{}
	case r.Do == askKeyPlace || k.place == nil:
		return failure(errKeyPlace)
	}
	key, err := k.read(k.place)
	if err != nil {
		return failure(err)
	}
	return outsideAnswer{Key: key}
}

// KeepKeyPlace tells the process outside where the key is. It believes only the first call.
func (o *Outside) KeepKeyPlace(place []byte) error {
	_, err := o.ask(outsideRequest{Do: askKeyPlace, Place: place})
	return err
}

// Key reads the key that is now at the place of [Outside.KeepKeyPlace]. The caller clears it.
func (o *Outside) Key() ([]byte, error) {
	answer, err := o.ask(outsideRequest{Do: askKey})
	return answer.Key, err
}
