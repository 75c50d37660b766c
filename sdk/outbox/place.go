package outbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/ownfile"
)

// Place is whose outbox a folder holds. The zero value: the folder does not say.
type Place struct {
	Service string        `json:"service"` // its address
	Account sdk.AccountID `json:"account"`
}

const (
	placeName = "place"
	// maxPlaceBytes bounds the file of a place, in bytes.
	maxPlaceBytes = 16 << 10
)

// Mark notes in the folder of an outbox whose it is.
func Mark(dir string, p Place) error {
	f, err := openFolder(dir)
	if err != nil {
		return fmt.Errorf("open the outbox: %w", err)
	}
	defer f.close()
	if f.place() == p {
		return nil
	}
	text, err := json.Marshal(p)
	if err == nil {
		err = ownfile.Replace(filepath.Join(dir, placeName), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("note whose outbox it is: %w", err)
	}
	return nil
}

// place returns whose outbox it is, as far as the folder says so.
func (f folder) place() (p Place) {
	file, err := f.open(placeName)
	if err != nil {
		return Place{}
	}
	defer file.Close()
	text := make([]byte, maxPlaceBytes)
	n, err := readSome(file, text, 0)
	if err != nil || json.Unmarshal(text[:n], &p) != nil {
		return Place{}
	}
	return p
}

// Folder is the folder of an outbox in which something waits.
type Folder struct {
	Dir   string
	Place Place
	Items int // that wait
}

// Folders returns the folders below parent in which something waits, without a lock. A folder that cannot be
// read is left out, and is part of the error.
func Folders(parent string) (found []Folder, err error) {
	list, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range list {
		if !e.IsDir() {
			continue
		}
		f, failed := lookInto(filepath.Join(parent, e.Name()))
		if err = errors.Join(err, failed); f.Items > 0 {
			found = append(found, f)
		}
	}
	return found, err
}

func lookInto(dir string) (Folder, error) {
	f, err := openFolder(dir)
	if err != nil {
		return Folder{}, fmt.Errorf("open the outbox: %w", err)
	}
	defer f.close()
	_, list, err := openStore(f, true)
	return Folder{dir, f.place(), len(list)}, err
}
