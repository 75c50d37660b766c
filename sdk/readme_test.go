package sdk_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
)

// README.md names every method, ours and those of the JavaScript SDK 1.2.3.
func TestReadmeNamesEveryMethod(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for prefix, of := range map[string]reflect.Type{"c.": reflect.TypeFor[*sdk.Client](), "g.": reflect.TypeFor[sdk.Group](),
		"": reflect.TypeFor[sdk.Settings]()} {
		for i := range of.NumMethod() {
			if name := prefix + of.Method(i).Name; !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, "`"+name+"(") {
				t.Errorf("%s is not in README.md", name)
			}
		}
	}
	for _, name := range []string{"upload", "retrieve", "registerGroup", "addGroupMember", "revokeGroupMember", "joinGroup", "setGroupRetention", "authStatus",
		"isAuthorized", "getGroupOwner", "getGroupChecksum", "getTransactionsForGroup", "getOwnedGroups", "getMemberGroups", "getGroupMembers", "getBalance",
		"estimateFee", "refreshToken", "getNetworkInfo", "computeHash", "computeHashAsync"} {
		if !strings.Contains(text, "`"+name+"(") {
			t.Errorf("%s of the JavaScript SDK is not in README.md", name)
		}
	}
}
