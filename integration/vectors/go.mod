module github.com/svcfs/svcfs/integration/vectors

go 1.26.4

replace github.com/svcfs/svcfs => ../..

require (
	github.com/c2sp/wycheproof v0.0.0-20260902155932-3fa63dd0344a
	github.com/svcfs/svcfs v0.0.0-00010101000000-000000000000
)
