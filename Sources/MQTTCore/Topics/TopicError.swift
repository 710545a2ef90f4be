/// Why a text is no Topic Name or no Topic Filter (section 4.7).
package enum TopicError: Error, Sendable, Hashable, CaseIterable {
    /// At least one character is needed [MQTT-4.7.3-1].
    case empty
    /// More than 65,535 bytes of UTF-8 [MQTT-4.7.3-3].
    case tooLong
    /// U+0000 [MQTT-4.7.3-2].
    case nullCharacter
    /// `+` or `#` in a Topic Name [MQTT-4.7.0-1].
    case wildcardInTopicName
    /// `#` before the end of the filter [MQTT-4.7.1-1].
    case multiLevelWildcardNotLast
    /// `#` beside other characters of its level [MQTT-4.7.1-1].
    case multiLevelWildcardNotAlone
    /// `+` beside other characters of its level [MQTT-4.7.1-2].
    case singleLevelWildcardNotAlone
    /// `$share/` without a ShareName [MQTT-4.8.2-1].
    case emptyShareName
    /// `+` or `#` in the ShareName [MQTT-4.8.2-2].
    case wildcardInShareName
    /// A ShareName that no `/` and Topic Filter follow [MQTT-4.8.2-2].
    case missingSharedFilter
}

extension TopicError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .empty: "A topic has at least one character."
        case .tooLong: "A topic takes at most 65,535 bytes of UTF-8."
        case .nullCharacter: "A topic doesn't include U+0000."
        case .wildcardInTopicName: "A Topic Name has no wildcards; + and # belong to Topic Filters."
        case .multiLevelWildcardNotLast: "The wildcard # is the last level of a Topic Filter."
        case .multiLevelWildcardNotAlone: "The wildcard # takes up a whole level."
        case .singleLevelWildcardNotAlone: "The wildcard + takes up a whole level."
        case .emptyShareName: "A shared subscription names its group: $share/group/filter."
        case .wildcardInShareName: "The group of a shared subscription has no wildcards."
        case .missingSharedFilter: "A Topic Filter follows the group: $share/group/filter."
        }
    }
}
