//! What is read of pprof's and OpenTelemetry's messages. Numbers of fields are those of their public definitions (`profile.proto` of
//! github.com/google/pprof; `profiles.proto` of github.com/open-telemetry/opentelemetry-proto), not of the product's code.

pub(super) mod pprof {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub(crate) sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(crate) sample: Vec<Sample>,
        #[prost(message, repeated, tag = "4")]
        pub(crate) location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub(crate) function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub(crate) string_table: Vec<String>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct ValueType {
        #[prost(int64, tag = "1")]
        pub(crate) kind: i64,
        #[prost(int64, tag = "2")]
        pub(crate) unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub(crate) location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub(crate) value: Vec<i64>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Location {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(message, repeated, tag = "4")]
        pub(crate) line: Vec<Line>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct Line {
        #[prost(uint64, tag = "1")]
        pub(crate) function_id: u64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct Function {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(int64, tag = "2")]
        pub(crate) name: i64,
    }
}

pub(super) mod otlp {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ProfilesData {
        #[prost(message, repeated, tag = "1")]
        pub(crate) resource_profiles: Vec<ResourceProfiles>,
        #[prost(message, optional, tag = "2")]
        pub(crate) dictionary: Option<Dictionary>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Dictionary {
        #[prost(string, repeated, tag = "5")]
        pub(crate) string_table: Vec<String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ResourceProfiles {
        #[prost(message, repeated, tag = "2")]
        pub(crate) scope_profiles: Vec<ScopeProfiles>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ScopeProfiles {
        #[prost(message, repeated, tag = "2")]
        pub(crate) profiles: Vec<Profile>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Profile {
        #[prost(message, optional, tag = "1")]
        pub(crate) sample_type: Option<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(crate) samples: Vec<Sample>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct ValueType {
        #[prost(int32, tag = "1")]
        pub(crate) kind: i32,
        #[prost(int32, tag = "2")]
        pub(crate) unit: i32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Sample {
        #[prost(int64, repeated, tag = "4")]
        pub(crate) values: Vec<i64>,
    }
}
